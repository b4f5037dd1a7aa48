// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/raven/raven.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/sort.h>

#include "kernels/gates/gates.h"
#include "kernels/noise/gumbel_noise.h"
#include "models/blocks/decay.h"
#include "models/blocks/dtype.h"
#include "models/blocks/grouped_queries.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/slot_memory.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::raven {
namespace {

constexpr char kLoad[] = "load";
// AdamW divides by a gradient's size: the weight keeps it small among those that are clipped.
constexpr double kLoadWeight = 1e-3;

const Fields<RavenConfig>& ConfigFields() {
  using Config = RavenConfig;
  static const auto fields =
      MatrixFields<Config>(kConvBeforeSilu)
          .Add("num_kv_heads", &Config::num_kv_heads,
               "heads of keys, values, slots and their gates; divides num_heads; 0: num_heads")
          .Add("expand_v", &Config::expand_v, "value channels per channel of d_model")
          .Add("num_slots", &Config::num_slots, "slots of a head")
          .Add("top_k", &Config::top_k, "slots of a head that a token writes")
          .Add("router_score", &Config::router_score, "of a slot, from its logit")
          .Add("router_mlp", &Config::router_mlp,
               "two projections with GELU between them instead of one")
          .Add("gumbel_noise", &Config::gumbel_noise, "on the router's logits, in training")
          .Add("selection_bias", &Config::selection_bias,
               "a learned bias where slots are chosen, led by how often they are")
          .Add("renormalise", &Config::renormalise, "routing weights add up to 1 / alpha")
          .Add("alpha", &Config::alpha, "divides the routing weights")
          .Add("forget_gate", &Config::forget_gate, "one of a head or one of each slot")
          .Add("gate_logit_normalizer", &Config::gate_logit_normalizer,
               "of a forget gate of each slot: log sigmoid(logit) / this")
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

// How strongly a slot that gets the whole weight forgets, -a: [B,T,H,1] or [B,T,H,M].
class ForgetStrength {
 public:
  ForgetStrength(const RavenConfig& config, std::int64_t num_heads, const ParameterScope& scope)
      : num_heads_(num_heads), normalizer_(config.gate_logit_normalizer) {
    if (config.forget_gate == ForgetGate::kHead) decay_.emplace(scope, num_heads);
  }

  // The write gate is -a, its mean over the slots where each has its own.
  at::Tensor operator()(const at::Tensor& logits, const MixerOptions& options) const {
    if (decay_) return options.taps.WriteGate(-(*decay_)(logits)).unsqueeze(-1);
    const at::Tensor strength =
        -kernels::LogSigmoidDecay(logits, normalizer_, /*floor=*/0, options.path);
    return TapMeanWriteGate(options.taps, strength.unflatten(-1, {num_heads_, -1}));
  }

 private:
  std::int64_t num_heads_;
  double normalizer_;
  std::optional<SoftplusDecay> decay_;
};

void TapRouter(const TapScope& taps, const SlotRouting& routing) {
  taps.Record("router", routing.weights);
  taps.Record("router_scores", routing.scores);
  taps.Record("router_indices", routing.indices);
  if (!taps.Wants("effective_length")) return;
  const at::Tensor lengths = routing.weights.ne(0).to(at::kFloat).mean(1);
  taps.Record("effective_length", std::get<0>(at::sort(lengths, /*dim=*/-1, /*descending=*/true)));
}

// Zero, with the gradient of sum_m bias_m (f_m - K/M), f_m the share of tokens that write slot m:
// descent takes the bias from slots that are written more often than others.
at::Tensor LoadLoss(const at::Tensor& bias, const at::Tensor& log_decay, std::int64_t top_k) {
  const at::Tensor load =
      log_decay.detach().ne(0).to(bias.scalar_type()).mean(at::IntArrayRef({0, 1}));
  const double share = static_cast<double>(top_k) / static_cast<double>(load.size(-1));
  const at::Tensor sum = (bias * (load - share)).sum();
  return (sum - sum.detach()).to(at::kFloat);
}

// `selection_bias`: undefined without.
MatrixCore RavenCore(const MatrixLayout& layout, std::int64_t num_slots, std::int64_t top_k,
                     const at::Tensor& selection_bias) {
  MatrixCore core = SlotMemory({.num_heads = layout.num_heads,
                                .head_k_dim = layout.head_k_dim,
                                .num_slots = num_slots,
                                .head_v_dim = layout.head_v_dim});
  core.run = [top_k, selection_bias, slots = core.run](kernels::RecurrenceArgs args,
                                                       const MixerOptions& options, Mixed& mixed) {
    if (selection_bias.defined()) {
      mixed.AddLoss(kLoad, LoadLoss(selection_bias, args.log_decay, top_k));
    }
    if (options.taps.Wants("slot_write")) {
      options.taps.Record("slot_write", -at::expm1(args.log_decay.detach()).sum(-1));
    }
    return slots(std::move(args), options, mixed);
  };
  return core;
}

MatrixLayout RavenLayout(const RavenConfig& config, std::int64_t d_model,
                         const std::string& where) {
  MatrixLayout layout = LayoutOf(config, d_model, where);
  GroupQueries(config.num_kv_heads, where, layout);
  layout.silu = true;
  layout.write_gate = WriteGate::kOwn;
  layout.output.silu_before_norm = true;
  if (config.output_gate == OutputGate::kNone) layout.output.norm = OutputNormKind::kAllHeads;
  const std::int64_t num_logits = layout.num_heads * config.num_slots;
  layout.gate_columns = {config.router_mlp ? d_model : num_logits,
                         config.forget_gate == ForgetGate::kHead ? layout.num_heads : num_logits};
  return layout;
}

std::unique_ptr<Mixer> Make(const RavenConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_slots, 1, 4096, where, "num_slots");
  CheckRange(config.top_k, 1, config.num_slots, where, "top_k");
  CheckPositive(config.alpha, where, "alpha");
  CheckPositive(config.gate_logit_normalizer, where, "gate_logit_normalizer");
  const MatrixLayout layout = RavenLayout(config, context.d_model, where);
  const std::int64_t num_heads = layout.num_heads, num_slots = config.num_slots;

  const RouterHead head(config.router_mlp, context.d_model, num_heads * num_slots, scope);
  const ForgetStrength forget(config, num_heads, scope);
  std::optional<RmsNorm> q_norm, k_norm;
  if (config.use_qk_norm) {
    q_norm.emplace(scope.Child("q_norm"), layout.head_k_dim, config.norm_eps);
    k_norm.emplace(scope.Child("k_norm"), layout.head_k_dim, config.norm_eps);
  }
  MatrixProjection own;
  own.traits.discrete = true;
  at::Tensor selection_bias;
  if (config.selection_bias) {
    selection_bias = scope.AddSpecial("selection_bias", {num_heads, num_slots}, Init::Constant(0));
    own.traits.losses = {{kLoad, kLoadWeight}};
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
    const SlotRouting routing = RouteSlots({.logits = logits,
                                            .decay = -forget(columns[1], options),
                                            .selection_bias = selection_bias,
                                            .top_k = config.top_k,
                                            .alpha = config.alpha,
                                            .renormalises = config.renormalise,
                                            .score = config.router_score},
                                           options.path);
    if (options.taps) TapRouter(options.taps, routing);
    args.log_decay = routing.log_decay;
  };
  return std::make_unique<MatrixStateMixer>(
      layout, gates, RavenCore(layout, num_slots, config.top_k, selection_bias), context, scope,
      own);
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
             {"renormalise", false},
             {"alpha", 4},
             {"use_qk_norm", false},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"num_slots", 16},
             {"top_k", 1},
             {"gumbel_noise", false},
             {"conv_size", 4},
             {"output_gate", "sigmoid"}},
      Object{{"num_kv_heads", 2},
             {"num_slots", 6},
             {"top_k", 2},
             {"selection_bias", true},
             {"forget_gate", "slot"},
             {"gate_logit_normalizer", 1}},
  };
  registry.Add("raven", std::move(entry));
}

}  // namespace mixerbench::models::raven
