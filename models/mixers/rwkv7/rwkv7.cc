// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/rwkv7/rwkv7.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/sigmoid.h>

#include "kernels/linear/linear.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/low_rank_core.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/token_shift.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"
#include "models/mixers/rwkv7/rwkv7_parameters.h"

namespace mixerbench::models::rwkv7 {
namespace {

constexpr char kFirstValues[] = "v_first";

const Fields<Rwkv7Config>& ConfigFields() {
  using Config = Rwkv7Config;
  static const auto fields =
      Fields<Config>()
          .Add("num_heads", &Config::num_heads, "heads")
          .Add("decay_low_rank_dim", &Config::decay_low_rank_dim,
               "width between the two projections of decay logits; 0: by the paper's formula")
          .Add("a_low_rank_dim", &Config::a_low_rank_dim,
               "the same of the in-context learning rate")
          .Add("v_low_rank_dim", &Config::v_low_rank_dim, "the same of the value residual")
          .Add("gate_low_rank_dim", &Config::gate_low_rank_dim, "the same of the output gate")
          .Add("norm_eps", &Config::norm_eps,
               "eps of the norm of a head, times the channels of a head")
          .Add("init", &Config::init,
               "how projections start: official, or backbone, as its other linear layers");
  return fields;
}

// Token shift and all that is projected from it.
class Projection {
 public:
  Projection(const Rwkv7Config& config, const StartValues& start, const MixerContext& context,
             const ParameterScope& scope)
      : num_heads_(config.num_heads),
        token_mix_(scope.AddSpecial("token_mix", start.token_mix)),
        r_proj_(AddProjection(scope, "r_proj.weight", context.d_model, 1, config.init)),
        k_proj_(AddProjection(scope, "k_proj.weight", context.d_model, 0.1, config.init)),
        v_proj_(AddProjection(scope, "v_proj.weight", context.d_model, 1, config.init)),
        decay_(scope, "decay", context.d_model, config.decay_low_rank_dim, LowRankMap::Inner::kTanh,
               start.decay_bias, config.init),
        a_(scope, "a", context.d_model, config.a_low_rank_dim, LowRankMap::Inner::kIdentity,
           start.a_bias, config.init),
        gate_(scope, "gate", context.d_model, config.gate_low_rank_dim, LowRankMap::Inner::kSigmoid,
              /*bias=*/{}, config.init) {
    if (context.offered.contains(kFirstValues)) {
      v_residual_.emplace(scope, "v", context.d_model, config.v_low_rank_dim,
                          LowRankMap::Inner::kIdentity, start.v_bias, config.init);
    }
  }

  MixerTraits traits() const {
    if (v_residual_) return {.reads = {kFirstValues}};
    return {.offers = {kFirstValues}};
  }

  void AddInitialState(std::int64_t batch_size, State& state) const {
    AddShiftState(batch_size, r_proj_, state);
  }

  MatrixColumns operator()(const MixerInputs& inputs, const MixerOptions& options,
                           Mixed& mixed) const {
    const at::Tensor& x = inputs.x;
    const auto mixes = ShiftMixes(x, TokenDifferences(x, options, mixed), token_mix_);
    const auto project = [&](const at::Tensor& mix, const at::Tensor& weight) {
      return kernels::Linear(mix, weight, /*bias=*/{}, options.path);
    };
    const auto heads = [&](const at::Tensor& y) { return y.unflatten(-1, {num_heads_, -1}); };
    at::Tensor v = project(mixes[3], v_proj_);
    if (v_residual_) {
      const at::Tensor share = at::sigmoid((*v_residual_)(mixes[3], options.path));
      v = (v + (inputs.values.at(kFirstValues) - v) * share).to(x.scalar_type());
    } else {
      mixed.offers[kFirstValues] = v;
    }
    return {.q = heads(project(mixes[0], r_proj_)),
            .k = heads(project(mixes[2], k_proj_)),
            .v = heads(v),
            .gates = {decay_(mixes[1], options.path), a_(mixes[4], options.path)},
            .output_gate = {gate_(mixes[5], options.path)}};
  }

 private:
  std::int64_t num_heads_;
  at::Tensor token_mix_;  // [6,D]
  at::Tensor r_proj_;
  at::Tensor k_proj_;
  at::Tensor v_proj_;
  LowRankMap decay_;
  LowRankMap a_;
  LowRankMap gate_;
  std::optional<LowRankMap> v_residual_;
};

// x / max(|x|, 1e-12) over the last axis.
at::Tensor UnitVectors(const at::Tensor& x) {
  return x / x.norm(2, -1, /*keepdim=*/true).clamp_min(1e-12);
}

// g = -e^(-1/2) sigmoid(logit); beta holds the in-context learning rate, a gate per key channel.
void Gates(const std::vector<at::Tensor>& columns, const MixerOptions& options,
           kernels::RecurrenceArgs& args) {
  const auto heads = [&](const at::Tensor& logits) {
    return at::sigmoid(logits).view(args.k.sizes());
  };
  args.log_decay = heads(columns[0]) * -std::exp(-0.5);
  args.beta = TapMeanWriteGate(options.taps, heads(columns[1]));
  args.scale = 1;
}

LowRankFactors FactorsOf(const StartValues& start, std::int64_t num_heads,
                         const ParameterScope& scope) {
  const auto add = [&](const char* name, const at::Tensor& values) {
    return scope.AddSpecial(name, values.view({num_heads, -1}));
  };
  const at::Tensor k_k = add("k_k", start.k_k);
  const at::Tensor k_a = add("k_a", start.k_a);
  const at::Tensor r_k = add("r_k", at::full_like(start.k_k, -0.04));
  return [=](const kernels::RecurrenceArgs& args, Mixed& mixed) {
    const at::Tensor k = AtLeastFloat(args.k);
    const at::Tensor& rate = args.beta;
    const at::Tensor kappa = UnitVectors(k * k_k);
    kernels::DplrArgs dplr{.recurrence = args, .a = kappa * rate, .b = kappa};
    dplr.recurrence.beta = at::Tensor();
    dplr.recurrence.k = (k * (1 + (rate - 1) * k_a)).to(args.k.scalar_type());

    const at::Tensor match = (args.q * dplr.recurrence.k * r_k).sum(-1, /*keepdim=*/true);
    mixed.tokens.push_back({(match * args.v).flatten(-2).to(args.v.scalar_type())});
    return dplr;
  };
}

std::unique_ptr<Mixer> Make(const Rwkv7Config& given, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const std::int64_t head_dim =
      DivideExactly(context.d_model, given.num_heads, where, "num_heads", "d_model");
  CheckRange(given.decay_low_rank_dim, 0, 4096, where, "decay_low_rank_dim");
  CheckRange(given.a_low_rank_dim, 0, 4096, where, "a_low_rank_dim");
  CheckRange(given.v_low_rank_dim, 0, 4096, where, "v_low_rank_dim");
  CheckRange(given.gate_low_rank_dim, 0, 4096, where, "gate_low_rank_dim");
  CheckEps(given.norm_eps, where, "norm_eps");
  const Rwkv7Config config = WithRanks(given, context.d_model);
  const StartValues start = StartValuesOf(context, config.num_heads);

  MatrixLayout layout{.num_heads = config.num_heads, .qk_heads = config.num_heads};
  layout.head_k_dim = head_dim;
  layout.head_v_dim = head_dim;
  layout.write_gate = WriteGate::kOwn;
  layout.output.norm = OutputNormKind::kGroup;
  layout.output.norm_weight = start.norm_weight;
  layout.output.gate = OutputGate::kPlain;
  layout.output.eps = config.norm_eps * static_cast<double>(head_dim);

  const auto projection = std::make_shared<const Projection>(config, start, context, scope);
  return std::make_unique<MatrixStateMixer>(
      layout, Gates, LowRankCore(FactorsOf(start, config.num_heads, scope), layout), context, scope,
      ProjectionOf(projection));
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary =
      "RWKV-7: token shift, a state with diagonal plus low-rank transition, values of "
      "the first layer in all";
  entry.source = "arXiv 2503.14456";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"decay_low_rank_dim", 3},
             {"a_low_rank_dim", 4},
             {"v_low_rank_dim", 5},
             {"gate_low_rank_dim", 6},
             {"norm_eps", 1e-6},
             {"init", "backbone"}},
  };
  registry.Add("rwkv7", std::move(entry));
}

}  // namespace mixerbench::models::rwkv7
