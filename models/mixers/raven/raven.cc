// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/raven/raven.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sort.h>

#include "kernels/linear_attention/gsa/gsa.h"
#include "kernels/noise/gumbel_noise.h"
#include "models/blocks/decay.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/routing.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::raven {
namespace {

constexpr char kKeys[] = "keys";
constexpr char kValues[] = "values";

const Fields<RavenConfig>& ConfigFields() {
  using Config = RavenConfig;
  static const auto fields =
      MatrixFields<Config>()
          .Add("expand_v", &Config::expand_v, "value channels per channel of d_model")
          .Add("num_slots", &Config::num_slots, "slots of a head")
          .Add("top_k", &Config::top_k, "slots of a head that a token writes")
          .Add("router_score", &Config::router_score, "of a slot, from its logit")
          .Add("router_mlp", &Config::router_mlp,
               "two projections with GELU between them instead of one")
          .Add("gumbel_noise", &Config::gumbel_noise, "on the router's logits, in training")
          .Add("alpha", &Config::alpha, "routing weights add up to 1 / alpha")
          .Add("use_qk_norm", &Config::use_qk_norm, "RMSNorm of each head's query and key");
  return fields;
}

// Logits of the slots from the columns of the projection: these or, of an MLP, what its second half
// makes of them.
class RouterHead {
 public:
  RouterHead(bool is_mlp, std::int64_t d_model, std::int64_t num_logits,
             const ParameterScope& scope) {
    if (!is_mlp) return;
    bias_ = scope.Add("router_bias", {d_model}, ParameterRole::kLinearBias, FanInUniform(d_model));
    proj_.emplace(scope.Child("router_proj"), d_model, num_logits, /*bias=*/false);
  }

  at::Tensor operator()(const at::Tensor& columns, kernels::ExecutionPath path) const {
    if (!proj_) return columns;
    return (*proj_)(at::gelu(columns + bias_.to(columns.scalar_type())), path);
  }

 private:
  at::Tensor bias_;
  std::optional<Linear> proj_;
};

void TapRouter(const TapScope& taps, const SlotRouting& routing, std::int64_t top_k) {
  taps.Record("router", routing.weights);
  taps.Record("router_scores", routing.scores);
  taps.Record("router_indices", TopK(routing.scores, top_k));
  if (!taps.Wants("effective_length")) return;
  const at::Tensor lengths = routing.weights.ne(0).to(at::kFloat).mean(1);
  taps.Record("effective_length", std::get<0>(at::sort(lengths, /*dim=*/-1, /*descending=*/true)));
}

// Two states, both decaying by slots: slots of keys are read first.
MatrixCore SlotCore(const MatrixLayout& layout, std::int64_t num_slots) {
  MatrixCore core;
  core.states = {{kKeys, {layout.num_heads, layout.head_k_dim, num_slots}},
                 {kValues, {layout.num_heads, num_slots, layout.head_v_dim}}};
  core.has_slots = true;
  core.run = [](kernels::RecurrenceArgs args, const MixerOptions& options, Mixed& mixed) {
    const at::Tensor writes = -at::expm1(args.log_decay);
    const kernels::GsaResult result =
        kernels::Gsa({.q = args.q,
                      .k = args.k,
                      .v = args.v,
                      .slot_writes = writes,
                      .log_decay = args.log_decay,
                      .initial_keys = Find(options.initial_state, kKeys),
                      .initial_values = Find(options.initial_state, kValues),
                      .scale = 1},
                     options.path);
    if (options.taps) {
      options.taps.Record("slot_write", writes.sum(-1));
      options.taps.Record("slot_probs", result.slot_probs);
      TapState(options.taps, at::cat({result.final_keys.mT(), result.final_values}, -1));
    }
    if (options.want_final_state) {
      mixed.final_state.tensors[kKeys] = {result.final_keys};
      mixed.final_state.tensors[kValues] = {result.final_values};
    }
    return result.o;
  };
  return core;
}

std::unique_ptr<Mixer> Make(const RavenConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_slots, 1, 4096, where, "num_slots");
  CheckRange(config.top_k, 1, config.num_slots, where, "top_k");
  CheckPositive(config.alpha, where, "alpha");
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  layout.silu = true;
  layout.write_gate = WriteGate::kOwn;
  layout.output.silu_before_norm = true;
  const std::int64_t num_heads = config.num_heads, num_slots = config.num_slots;
  layout.gate_columns = {config.router_mlp ? context.d_model : num_heads * num_slots, num_heads};

  const RouterHead head(config.router_mlp, context.d_model, num_heads * num_slots, scope);
  const SoftplusDecay decay(scope, num_heads);
  std::optional<RmsNorm> q_norm, k_norm;
  if (config.use_qk_norm) {
    q_norm.emplace(scope.Child("q_norm"), layout.head_k_dim, config.norm_eps);
    k_norm.emplace(scope.Child("k_norm"), layout.head_k_dim, config.norm_eps);
  }
  const auto gates = [=](const std::vector<at::Tensor>& columns, const MixerOptions& options,
                         kernels::RecurrenceArgs& args) {
    if (q_norm) args.q = (*q_norm)(args.q);
    if (k_norm) args.k = (*k_norm)(args.k);
    at::Tensor logits =
        AtLeastFloat(head(columns[0], options.path)).unflatten(-1, {num_heads, num_slots});
    if (config.gumbel_noise && options.generator) {
      logits =
          logits + kernels::GumbelNoise(logits.sizes(), options.generator->Next(logits.device()));
    }
    at::Tensor strength =
        decay.A_log.exp() * at::softplus(AtLeastFloat(columns[1]) + decay.dt_bias);
    if (options.taps) strength = options.taps.WriteGate(strength);
    const SlotRouting routing = RouteSlots({.logits = logits,
                                            .decay = -strength,
                                            .top_k = config.top_k,
                                            .alpha = config.alpha,
                                            .score = config.router_score},
                                           options.path);
    if (options.taps) TapRouter(options.taps, routing, config.top_k);
    args.log_decay = routing.log_decay;
  };
  MatrixProjection own;
  own.traits.discrete = true;
  return std::make_unique<MatrixStateMixer>(layout, gates, SlotCore(layout, num_slots), context,
                                            scope, own);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "Raven: tokens write a few slots of keys and values, which a softmax reads";
  entry.source = "routing slot memories (goombalab/raven); two-pass slots: arXiv 2409.07146";
  entry.test_configs = {
      Object{{"num_heads", 2},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"num_slots", 7},
             {"top_k", 3},
             {"router_score", "softmax"},
             {"router_mlp", true},
             {"alpha", 4},
             {"use_qk_norm", false},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"num_slots", 16},
             {"top_k", 1},
             {"gumbel_noise", false},
             {"conv_size", 4},
             {"output_gate", "sigmoid"}},
  };
  registry.Add("raven", std::move(entry));
}

}  // namespace mixerbench::models::raven
