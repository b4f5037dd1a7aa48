// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mamba3/mamba3.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/linear.h"
#include "models/blocks/norms.h"
#include "models/blocks/output_block.h"
#include "models/blocks/time_step.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"
#include "models/mixers/mamba3/trapezoid.h"

namespace mixerbench::models::mamba3 {
namespace {

constexpr std::int64_t kDefaultHeadDim = 64;
constexpr char kState[] = "state";
constexpr char kKey[] = "k";
constexpr char kValue[] = "v";
constexpr char kAngle[] = "angle";

const Fields<Mamba3Config>& ConfigFields() {
  using Config = Mamba3Config;
  static const auto fields =
      Fields<Config>()
          .Add("expand", &Config::expand, "channels per channel of d_model")
          .Add("d_state", &Config::d_state, "states of a channel")
          .Add("head_dim", &Config::head_dim,
               "channels of a head; 0: 64, or all channels where there are fewer")
          .Add("num_groups", &Config::num_groups, "of heads that share writes and reads")
          .Add("rope_fraction", &Config::rope_fraction, "of the states, that turn: 0.5 or 1")
          .Add("dt_min", &Config::dt_min, "smallest step at the start")
          .Add("dt_max", &Config::dt_max, "largest step at the start")
          .Add("dt_init_floor", &Config::dt_init_floor, "steps drawn below it start there")
          .Add("A_floor", &Config::A_floor, "decay rates are at least this")
          .Add("output_norm", &Config::output_norm, "norm of each head before the gate")
          .Add("norm_eps", &Config::norm_eps, "eps of the norms of B, C and the output")
          .Add("mimo_rank", &Config::mimo_rank,
               "keys, values and queries of a token (MIMO); 1: one of each");
  return fields;
}

struct Sizes {
  std::int64_t num_heads = 0;   // H
  std::int64_t num_groups = 0;  // G
  std::int64_t state_size = 0;  // N
  std::int64_t head_dim = 0;    // P
  std::int64_t num_angles = 0;
  std::int64_t rank = 1;  // R

  std::int64_t num_channels() const { return num_heads * head_dim; }
  std::int64_t group_columns() const { return rank * num_groups * state_size; }
  std::vector<std::int64_t> bias_shape() const {
    if (rank == 1) return {num_heads, state_size};
    return {num_heads, rank, state_size};
  }
};

// max(x, 0) + 1 / (1 - min(x, 0)): positive, 1 + x above 0 and 1 / (1 - x) below.
at::Tensor Rate(const at::Tensor& x) { return x.clamp_min(0) + 1 / (1 - x.clamp_max(0)); }

class Mamba3 final : public Mixer {
 public:
  Mamba3(const Mamba3Config& config, const Sizes& sizes, const TimeStepRange& steps,
         const MixerContext& context, const ParameterScope& scope)
      : sizes_(sizes),
        A_floor_(config.A_floor),
        in_proj_(scope.Child("in_proj"), context.d_model,
                 2 * sizes.num_channels() + 2 * sizes.group_columns() + 3 * sizes.num_heads +
                     sizes.num_angles,
                 /*bias=*/false),
        B_norm_(scope.Child("B_norm"), sizes.state_size, config.norm_eps),
        C_norm_(scope.Child("C_norm"), sizes.state_size, config.norm_eps),
        B_bias_(scope.AddSpecial("B_bias", sizes.bias_shape(), Init::Constant(1))),
        C_bias_(scope.AddSpecial("C_bias", sizes.bias_shape(), Init::Constant(1))),
        dt_bias_(AddStepBias(scope, "dt_bias", sizes.num_heads, steps)),
        D_(scope.AddSpecial("D", {sizes.num_heads}, Init::Constant(1))),
        output_(OutputOf(config), sizes.num_heads, sizes.head_dim, WithoutProjection(context),
                scope) {
    if (context.output_projection) {
      o_proj_.emplace(scope.Child("o_proj"), sizes.num_channels(), context.d_model, /*bias=*/false,
                      ParameterRole::kResidualOutputWeight);
    }
    if (sizes.rank == 1) return;
    const auto add = [&](const char* name, double start) {
      return scope.AddSpecial(name, {sizes.num_heads, sizes.rank, sizes.head_dim},
                              Init::Constant(start));
    };
    const double share = 1 / static_cast<double>(sizes.rank);
    mimo_x_ = add("mimo_x", share);
    mimo_z_ = add("mimo_z", 1);
    mimo_o_ = add("mimo_o", share);
  }

  MixerTraits traits() const override {
    MixerTraits traits;
    if (!o_proj_) traits.output_dim = sizes_.num_channels();
    return traits;
  }

  State InitialState(std::int64_t batch_size) const override {
    const auto floats = D_.options().requires_grad(false);
    const auto inputs = in_proj_.weight().options().requires_grad(false);
    State state;
    state.tensors[kState] = {
        at::zeros({batch_size, sizes_.num_heads, sizes_.state_size, sizes_.head_dim}, floats)};
    state.tensors[kKey] = {
        at::zeros({batch_size, sizes_.rank * sizes_.num_heads * sizes_.state_size}, inputs),
        StateKind::kTokenShift};
    state.tensors[kValue] = {at::zeros({batch_size, sizes_.num_channels()}, inputs),
                             StateKind::kTokenShift};
    state.tensors[kAngle] = {at::zeros({batch_size, sizes_.num_heads, sizes_.num_angles}, floats)};
    return state;
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const std::int64_t H = sizes_.num_heads;
    const std::vector<at::Tensor> columns =
        in_proj_.Columns(inputs.x,
                         {sizes_.num_channels(),
                          sizes_.group_columns(),
                          sizes_.group_columns(),
                          H,
                          H,
                          H,
                          sizes_.num_angles,
                          {sizes_.num_channels(), /*only_scored=*/true}},
                         options.scored, options.path);
    const at::Tensor step = -at::log_sigmoid(-(AtLeastFloat(columns[3]) + dt_bias_));  // softplus
    const at::Tensor turns = at::tanh(AtLeastFloat(columns[6])) * std::numbers::pi;    // [B,T,R]
    const at::Tensor angles =
        Angles(turns.unsqueeze(2) * step.unsqueeze(-1), Find(options.initial_state, kAngle));

    TrapezoidArgs args;
    args.rank = sizes_.rank;
    args.v = Spread(columns[0]);
    const at::Tensor of_every_rank = Turns(angles).unsqueeze(2);
    args.k = Turned(columns[1], B_norm_, B_bias_, of_every_rank);
    args.q = Turned(columns[2], C_norm_, C_bias_, of_every_rank);
    args.step = step;
    args.A = (-Rate(AtLeastFloat(columns[4]))).clamp_max(-A_floor_);
    args.mix = at::sigmoid(AtLeastFloat(columns[5]));
    args.written_step = options.taps ? options.taps.WriteGate(step) : step;
    args.D = D_;
    args.initial = InitialOf(options.initial_state);
    args.wants_final_state = options.want_final_state || options.taps;
    if (options.taps) options.taps.Record("log_decay", args.A * step);
    const TrapezoidResult result = Trapezoid(args, options.path);
    if (options.taps) TapState(options.taps, result.final.state);

    Mixed mixed;
    mixed.tokens = {{sizes_.rank == 1 ? result.o : result.o.unflatten(1, {-1, sizes_.rank})},
                    {columns[7], /*selected=*/options.scored != nullptr}};
    if (options.want_final_state) {
      mixed.final_state.tensors[kState] = {result.final.state};
      mixed.final_state.tensors[kKey] = {StateLike(result.final.k.flatten(1)),
                                         StateKind::kTokenShift};
      mixed.final_state.tensors[kValue] = {StateLike(columns[0].select(1, columns[0].size(1) - 1)),
                                           StateKind::kTokenShift};
      mixed.final_state.tensors[kAngle] = {angles.select(1, angles.size(1) - 1)};
    }
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor& o = mixed.tokens[0].value;
    const at::Tensor& z = mixed.tokens[1].value;
    const at::Tensor y = sizes_.rank == 1 ? output_(o, z, /*added=*/{}, options.path)
                                          : ReadRanks(o, z, options.path);
    return o_proj_ ? (*o_proj_)(y, options.path) : y;
  }

 private:
  static OutputLayout OutputOf(const Mamba3Config& config) {
    OutputLayout layout;
    layout.norm = config.output_norm ? OutputNormKind::kPerHead : OutputNormKind::kNone;
    layout.gate = OutputGate::kSilu;
    layout.eps = config.norm_eps;
    return layout;
  }

  static MixerContext WithoutProjection(MixerContext context) {
    context.output_projection = false;
    return context;
  }

  // Of a parameter [H,R,P]: [R,H,P].
  static at::Tensor RanksFirst(const at::Tensor& weight) { return weight.transpose(0, 1); }

  // The values of every rank, those of a token one after the other: [B,T,H P] -> [B,T R,H,P].
  at::Tensor Spread(const at::Tensor& x) const {
    const at::Tensor heads = x.unflatten(-1, {sizes_.num_heads, sizes_.head_dim});
    if (sizes_.rank == 1) return heads;
    return (heads.unsqueeze(2) * RanksFirst(mimo_x_)).to(x.scalar_type()).flatten(1, 2);
  }

  // o [...,R,H,P], z [...,H P] -> [...,H P]: each rank with its gate, then their weighted sum.
  at::Tensor ReadRanks(const at::Tensor& o, const at::Tensor& z, ExecutionPath path) const {
    const at::Tensor gates = (z.unsqueeze(-2) * RanksFirst(mimo_z_).flatten(1)).to(z.scalar_type());
    // The block takes tokens of heads: a rank is one.
    const at::Tensor read = output_(o.flatten(-4, -3), gates.flatten(-3, -2), /*added=*/{}, path)
                                .unflatten(-2, {-1, sizes_.rank});
    return (read * RanksFirst(mimo_o_).flatten(1)).sum(-2).to(o.scalar_type());
  }

  // Norm, repeat to all heads, bias of each, turn: [B,T,R G N] -> [B,T R,H,N] in the dtype of x.
  at::Tensor Turned(const at::Tensor& x, const RmsNorm& norm, const at::Tensor& bias,
                    const at::Tensor& turns) const {
    const at::Tensor normed =
        norm(x.unflatten(-1, {sizes_.rank, sizes_.num_groups, sizes_.state_size}));
    const at::Tensor biases =  // [R,G,H/G,N]
        bias.view({sizes_.num_groups, -1, sizes_.rank, sizes_.state_size}).movedim(2, 0);
    const at::Tensor heads = (AtLeastFloat(normed).unsqueeze(4) + biases).flatten(3, 4);
    return TurnPairs(heads, turns).to(x.scalar_type()).flatten(1, 2);
  }

  TrapezoidState InitialOf(const State* state) const {
    if (state == nullptr) return {};
    return {.state = Find(state, kState),
            .k = Find(state, kKey).unflatten(1, {sizes_.rank, sizes_.num_heads, sizes_.state_size}),
            .v = Spread(Find(state, kValue).unsqueeze(1))};
  }

  // In the dtype that InitialState has.
  at::Tensor StateLike(const at::Tensor& x) const { return x.to(in_proj_.weight().scalar_type()); }

  Sizes sizes_;
  double A_floor_;
  Linear in_proj_;  // rows: x, B, C, step, rate, mix, angles, z
  RmsNorm B_norm_, C_norm_;
  at::Tensor B_bias_, C_bias_;           // [H,N]
  at::Tensor dt_bias_, D_;               // [H]
  at::Tensor mimo_x_, mimo_z_, mimo_o_;  // [H,R,P]; undefined for one rank
  OutputBlock output_;
  std::optional<Linear> o_proj_;
};

std::unique_ptr<Mixer> Make(const Mamba3Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.expand, 1, 64, where, "expand");
  CheckRange(config.d_state, 2, 1024, where, "d_state");
  CheckRange(config.mimo_rank, 1, 64, where, "mimo_rank");
  CheckEps(config.norm_eps, where, "norm_eps");
  CheckPositive(config.A_floor, where, "A_floor");
  if (config.rope_fraction != 0.5 && config.rope_fraction != 1) {
    throw ConfigError(where + "/rope_fraction", "must be 0.5 or 1");
  }
  const std::int64_t num_channels = config.expand * context.d_model;
  CheckRange(config.head_dim, 0, num_channels, where, "head_dim");
  Sizes sizes;
  sizes.head_dim = config.head_dim > 0 ? config.head_dim : std::min(kDefaultHeadDim, num_channels);
  sizes.num_heads = DivideExactly(num_channels, sizes.head_dim, where, "head_dim", "the channels");
  sizes.num_groups = config.num_groups;
  DivideExactly(sizes.num_heads, config.num_groups, where, "num_groups", "the heads");
  sizes.state_size = config.d_state;
  sizes.rank = config.mimo_rank;
  sizes.num_angles = static_cast<std::int64_t>(
                         std::floor(static_cast<double>(config.d_state) * config.rope_fraction)) /
                     2;
  if (sizes.num_angles == 0)
    throw ConfigError(where + "/rope_fraction", "leaves no pair of states");
  return std::make_unique<Mamba3>(config, sizes, TimeStepRangeOf(config, where), context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary =
      "Mamba-3: trapezoidal steps and states that turn, without a convolution; SISO or MIMO";
  entry.source = "Mamba-3 (state-spaces/mamba, 2026)";
  entry.test_configs = {
      Object{{"expand", 1},
             {"d_state", 6},
             {"head_dim", 4},
             {"num_groups", 2},
             {"rope_fraction", 1},
             {"dt_min", 0.01},
             {"dt_max", 1},
             {"dt_init_floor", 0.02},
             {"A_floor", 0.3},
             {"output_norm", true},
             {"norm_eps", 1e-6}},
      Object{{"d_state", 6}, {"head_dim", 8}, {"mimo_rank", 3}},
      Object{{"d_state", 5}, {"head_dim", 8}, {"mimo_rank", 2}, {"output_norm", true}},
  };
  registry.Add("mamba3", std::move(entry));
}

}  // namespace mixerbench::models::mamba3
