// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/delta_rule_gates.h"

#include <optional>

#include "kernels/gates/gates.h"
#include "models/blocks/decay.h"

namespace mixerbench::models {

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

}  // namespace mixerbench::models
