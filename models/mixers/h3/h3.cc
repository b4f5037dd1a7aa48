// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/h3/h3.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "models/blocks/config_checks.h"
#include "models/blocks/diagonal_modes.h"
#include "models/blocks/diagonal_system.h"
#include "models/blocks/dtype.h"
#include "models/blocks/linear.h"
#include "models/blocks/long_convolution.h"
#include "models/blocks/state_space.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::h3 {
namespace {

constexpr char kShift[] = "shift";
constexpr char kState[] = "state";

const Fields<H3Config>& ConfigFields() {
  static const auto fields =
      Fields<H3Config>()
          .Add("d_state", &H3Config::d_state,
               "tokens that the shift reaches back, and real numbers of the diagonal system, even")
          .Add("head_dim", &H3Config::head_dim, "channels of k crossed with as many of v")
          .Add("dt_min", &H3Config::dt_min, "shortest time step at the start")
          .Add("dt_max", &H3Config::dt_max, "longest time step at the start");
  return fields;
}

// Convolution of every channel with kappa_i = sum_n b_n c_{n+i}, i < N, and a skip.
class ShiftSystem {
 public:
  ShiftSystem(const ParameterScope& scope, std::int64_t channels, std::int64_t length)
      : length_(length),
        input_(AddSsmParameter(scope, "B", Impulse(channels, length))),
        output_(
            scope.Add("C", {channels, length}, ParameterRole::kOwnWeight, FanInUniform(length))),
        skip_(scope.Add("D", {channels}, ParameterRole::kOwnWeight, Init::Normal(1))) {}

  // `all`: the N-1 inputs before x [B,T,D], and x.
  at::Tensor operator()(const at::Tensor& all, const at::Tensor& x, ExecutionPath path) const {
    const at::ScalarType dtype = x.scalar_type();
    // The correlation of b and c as a convolution of b with c reversed.
    const at::Tensor correlation = LongConvolution(input_.to(dtype).t().unsqueeze(0),
                                                   output_.to(dtype).t().flip(0), length_, path);
    const at::Tensor filter = correlation.squeeze(0).flip(0);  // [N,D]
    return LongConvolution(all, filter, x.size(1), path) + x * skip_.to(dtype);
  }

  at::Tensor InitialHistory(std::int64_t batch_size) const {
    return at::zeros({batch_size, length_ - 1, skip_.size(0)},
                     AtLeastFloat(skip_).options().requires_grad(false));
  }

 private:
  static at::Tensor Impulse(std::int64_t channels, std::int64_t length) {
    at::Tensor impulse = at::zeros({channels, length}, at::kDouble);
    impulse.select(1, 0).fill_(1);
    return impulse;
  }

  std::int64_t length_;  // N
  at::Tensor input_;     // [D,N]
  at::Tensor output_;    // [D,N]
  at::Tensor skip_;      // [D]
};

class H3 final : public Mixer {
 public:
  H3(const H3Config& config, std::int64_t num_heads, const MixerContext& context,
     const ParameterScope& scope)
      : H3(config, num_heads, InitialModes(DiagonalInit::kLin, num_heads, config.d_state / 2),
           context, scope) {}

  MixerTraits traits() const override {
    return {.output_dim = out_proj_ ? out_proj_->weight().size(0) : num_heads_ * head_dim_};
  }

  State InitialState(std::int64_t batch_size) const override {
    const auto dtype = c10::toComplexType(AtLeastFloat(output_).scalar_type());
    const at::Tensor state =
        at::zeros({batch_size, num_heads_ * head_dim_ * head_dim_, output_.size(1)},
                  output_.options().dtype(dtype).requires_grad(false));
    return StateOf(shift_.InitialHistory(batch_size), state);
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const auto columns = AtLeastFloat(in_proj_(inputs.x, options.path)).chunk(3, -1);
    const at::Tensor &q = columns[0], &k = columns[1], &v = columns[2];
    const at::Tensor old = Find(options.initial_state, kShift);
    const at::Tensor history =
        old.defined() ? old : shift_.InitialHistory(inputs.x.size(0)).to(k.scalar_type());
    const at::Tensor all = at::cat({history.to(k.scalar_type()), k}, 1);
    const auto by_heads = [&](const at::Tensor& x) {
      return x.unflatten(-1, {num_heads_, head_dim_});  // [B,T,H,E]
    };
    const at::Tensor crossed = by_heads(shift_(all, k, options.path)).unsqueeze(-1) *
                               by_heads(v).unsqueeze(-2);  // [B,T,H,E,E]
    const SystemResult result =
        RunSystem(System(), crossed.flatten(2), Find(options.initial_state, kState),
                  options.want_final_state, options.path);
    const at::Tensor s = result.y.view_as(crossed) +
                         crossed * skip_.to(crossed.scalar_type()).unsqueeze(-1).unsqueeze(-1);
    Mixed mixed;
    mixed.tokens = {
        {(s * by_heads(q).unsqueeze(-1)).sum(-2).flatten(2).to(inputs.x.scalar_type())}};
    if (options.want_final_state) {
      const std::int64_t kept = history.size(1);
      mixed.final_state = StateOf(all.narrow(1, all.size(1) - kept, kept), result.final_state);
    }
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor& y = mixed.tokens[0].value;
    return out_proj_ ? (*out_proj_)(y, options.path) : y;
  }

 private:
  H3(const H3Config& config, std::int64_t num_heads, const DiagonalModes& modes,
     const MixerContext& context, const ParameterScope& scope)
      : num_heads_(num_heads),
        head_dim_(config.head_dim),
        in_proj_(scope.Child("in_proj"), context.d_model, 3 * context.d_model, /*bias=*/true),
        shift_(scope.Child("shift"), context.d_model, config.d_state),
        steps_(scope, "log_dt", num_heads, {config.dt_min, config.dt_max}),
        rates_(scope, modes.rate, /*min_frequency=*/0),
        input_(AddSsmParameter(scope, "B", ToPairs(modes.input))),
        output_(AddComplexNormal(scope, "C", {num_heads, config.d_state / 2})),
        skip_(scope.Add("D", {num_heads}, ParameterRole::kOwnWeight, Init::Normal(1))) {
    if (!context.output_projection) return;
    // An ordinary weight: zoology calls it output_linear, which its initialisation does not
    // rescale.
    out_proj_.emplace(scope.Child("out_proj"), context.d_model, context.d_model, /*bias=*/true);
  }

  static State StateOf(const at::Tensor& history, const at::Tensor& state) {
    return {.tensors = {{kShift, {history, StateKind::kConvolution}}, {kState, {state}}}};
  }

  DiagonalSystem System() const {
    return Discretize(rates_(), FromPairs(input_), FromPairs(output_), steps_(),
                      Discretization::kBilinear);
  }

  std::int64_t num_heads_;
  std::int64_t head_dim_;
  Linear in_proj_;
  ShiftSystem shift_;
  TimeSteps steps_;
  DiagonalRates rates_;
  at::Tensor input_;   // pairs [H,M,2]
  at::Tensor output_;  // pairs [H,M,2]
  at::Tensor skip_;    // [H]
  std::optional<Linear> out_proj_;
};

std::unique_ptr<Mixer> Make(const H3Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.d_state, 2, 1 << 16, where, "d_state");
  DivideExactly(config.d_state, 2, where, "d_state", "d_state");
  const std::int64_t num_heads =
      DivideExactly(context.d_model, config.head_dim, where, "head_dim", "d_model");
  CheckSteps(config.dt_min, config.dt_max, where);
  return std::make_unique<H3>(config, num_heads, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "H3: a shift and a diagonal state space between gates";
  entry.source = "arXiv 2212.14052, HazyResearch/zoology d88d6f5";
  entry.test_configs = {Object{{"d_state", 6}, {"head_dim", 2}, {"dt_min", 0.01}, {"dt_max", 0.3}}};
  registry.Add("h3", std::move(entry));
}

}  // namespace mixerbench::models::h3
