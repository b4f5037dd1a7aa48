// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gated_delta_product/gated_delta_product.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include "kernels/gates/gates.h"
#include "kernels/linear_attention/delta_rule/delta_rule.h"
#include "models/blocks/decay.h"
#include "models/blocks/delta_rule_gates.h"
#include "models/blocks/erase_tap.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/value_heads.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::gated_delta_product {
namespace {

const Fields<GatedDeltaProductConfig>& ConfigFields() {
  using Config = GatedDeltaProductConfig;
  static const auto fields =
      WithValueHeads(MatrixFields<Config>(kConvBeforeSilu))
          .Add("num_householder", &Config::num_householder,
               "steps of the delta rule a token, each with its own key, value and write strength")
          .Add("use_forget_gate", &Config::use_forget_gate, "decay the state before each token")
          .Add("allow_neg_eigval", &Config::allow_neg_eigval,
               "write strength in (0,2) instead of (0,1)");
  return fields;
}

// x [B,T,H,...] as the first (or last) of `steps` steps of its token, zeros for the others:
// [B,T steps,H,...].
at::Tensor AtStep(const at::Tensor& x, std::int64_t steps, bool last) {
  if (steps == 1) return x;
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.insert(sizes.begin() + 2, steps - 1);
  const at::Tensor others = at::zeros(sizes, x.options());
  const at::Tensor own = x.unsqueeze(2);
  return at::cat(last ? at::TensorList{others, own} : at::TensorList{own, others}, 2).flatten(1, 2);
}

// The delta rule on `steps` virtual tokens a token: the decay comes before the first of them, the
// query reads after the last. k, v, beta: [B,T,steps H,...].
kernels::RecurrenceArgs VirtualTokens(const kernels::RecurrenceArgs& args, std::int64_t steps) {
  const auto split = [&](const at::Tensor& x) { return x.unflatten(2, {steps, -1}).flatten(1, 2); };
  kernels::RecurrenceArgs virtual_args = args;
  virtual_args.q = AtStep(args.q, steps, /*last=*/true);
  virtual_args.k = split(args.k);
  virtual_args.v = split(args.v);
  virtual_args.beta = split(args.beta);
  if (args.log_decay.defined()) {
    virtual_args.log_decay = AtStep(args.log_decay, steps, /*last=*/false);
  }
  return virtual_args;
}

// The root of the sum of the squares of what the steps of a token erase, [B,T,H].
void TapProductErase(kernels::RecurrenceArgs virtual_args, const at::Tensor& initial_state,
                     std::int64_t steps, const MixerOptions& options) {
  if (!options.taps.Wants(kEraseTap)) return;
  virtual_args.initial_state = initial_state;
  const at::Tensor of_steps = DeltaErasedNorm(virtual_args, options.path);
  options.taps.Record(kEraseTap,
                      at::linalg_vector_norm(of_steps.unflatten(1, {-1, steps}), 2, {2}));
}

MatrixCore ProductCore(const MatrixLayout& layout) {
  MatrixCore core = OneState(kernels::DeltaRule, layout);
  const std::string state = core.states.front().first;
  core.run = [steps = layout.writes_per_token, state, delta_rule = core.run](
                 const kernels::RecurrenceArgs& args, const MixerOptions& options, Mixed& mixed) {
    const kernels::RecurrenceArgs virtual_args = VirtualTokens(args, steps);
    TapProductErase(virtual_args, Find(options.initial_state, state), steps, options);
    const at::Tensor o = delta_rule(virtual_args, options, mixed);
    return o.unflatten(1, {-1, steps}).select(2, steps - 1);
  };
  return core;
}

std::unique_ptr<Mixer> Make(const GatedDeltaProductConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_householder, 1, 64, where, "num_householder");
  MatrixLayout layout = KeyLayoutOf(config, context.d_model, where);
  SetValueHeads(config, where, layout);
  layout.silu = true;
  layout.l2_norm = true;
  layout.writes_per_token = config.num_householder;
  layout.write_gate = WriteGate::kOwn;
  const std::int64_t steps = config.num_householder;
  layout.gate_columns = {steps * layout.num_heads};
  std::optional<SoftplusDecay> decay;
  if (config.use_forget_gate) {
    layout.gate_columns.push_back(layout.num_heads);
    decay.emplace(scope, layout.num_heads);
  }
  const double max_beta = config.allow_neg_eigval ? 2 : 1;
  const auto gates = [=](const std::vector<at::Tensor>& columns, const MixerOptions& options,
                         kernels::RecurrenceArgs& args) {
    const at::Tensor beta =
        kernels::ComputeDeltaGates({.z = columns[0], .beta_scale = max_beta}, options.path).beta;
    const at::Tensor by_head = beta.unflatten(-1, {steps, -1}).transpose(-1, -2);  // [B,T,H,steps]
    args.beta = TapMeanWriteGate(options.taps, by_head).transpose(-1, -2).flatten(-2);
    if (decay) args.log_decay = (*decay)(columns[1]);
  };
  return std::make_unique<MatrixStateMixer>(layout, gates, ProductCore(layout), context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "Gated DeltaProduct: several steps of the delta rule a token, one decay per head";
  entry.source = "arXiv 2502.10297";
  entry.test_configs = {
      Object{{"num_heads", 1},
             {"num_v_heads", 2},
             {"expand_k", 0.5},
             {"expand_v", 1},
             {"num_householder", 3},
             {"conv_size", 0},
             {"allow_neg_eigval", false},
             {"use_output_gate", false},
             {"norm_eps", 1e-6}},
      Object{{"num_householder", 1}, {"use_forget_gate", false}},
  };
  registry.Add("gated_delta_product", std::move(entry));
}

}  // namespace mixerbench::models::gated_delta_product
