// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/delta_rule_gates.h"

#include <optional>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/exp.h>

#include "kernels/gates/gates.h"
#include "kernels/linear_attention/delta_rule/delta_rule.h"
#include "models/blocks/decay.h"
#include "models/blocks/erase_tap.h"

namespace mixerbench::models {

at::Tensor DeltaErasedNorm(const kernels::RecurrenceArgs& args, ExecutionPath path) {
  const at::NoGradGuard no_grad;
  // In float32 at least where they decay: as they meet the state before it does.
  const at::Tensor keys =
      args.log_decay.defined() ? args.k * at::exp(args.log_decay).unsqueeze(-1) : args.k;
  return ErasedNorm(keys, args.initial_state, [&](const at::Tensor& q) {
    kernels::RecurrenceArgs other = args;
    other.q = q;
    other.k = args.k.to(q.scalar_type());
    other.v = args.v.to(q.scalar_type());
    other.scale = 1;
    return kernels::DeltaRule(other, path).o;
  });
}

GateFunction MakeDeltaRuleGates(MatrixLayout& layout, bool has_decay, bool allow_neg_eigval,
                                const ParameterScope& scope) {
  layout.gate_columns = {(has_decay ? 2 : 1) * layout.num_heads};
  layout.write_gate = WriteGate::kBeta;
  std::optional<SoftplusDecay> decay;
  if (has_decay) decay.emplace(scope, layout.num_heads);
  return [decay, allow_neg_eigval](const std::vector<at::Tensor>& columns,
                                   const MixerOptions& options, kernels::RecurrenceArgs& args) {
    kernels::DeltaGatesArgs gate_args{.z = columns[0], .beta_scale = allow_neg_eigval ? 2.0 : 1.0};
    if (decay) {
      gate_args.A_log = decay->A_log;
      gate_args.dt_bias = decay->dt_bias;
    }
    const auto gates = kernels::ComputeDeltaGates(gate_args, options.path);
    args.beta = gates.beta;
    args.log_decay = gates.log_decay;
  };
}

MatrixCore DeltaRuleCore(const MatrixLayout& layout) {
  MatrixCore core = OneState(kernels::DeltaRule, layout);
  const std::string state = core.states.front().first;
  core.run = [state, one_state = core.run](kernels::RecurrenceArgs args,
                                           const MixerOptions& options, Mixed& mixed) {
    if (options.taps.Wants(kEraseTap)) {
      args.initial_state = Find(options.initial_state, state);
      options.taps.Record(kEraseTap, DeltaErasedNorm(args, options.path));
    }
    return one_state(std::move(args), options, mixed);
  };
  return core;
}

}  // namespace mixerbench::models
