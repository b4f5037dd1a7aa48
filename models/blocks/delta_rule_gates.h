// What mixers with the core kernels/delta_rule share: write strength, decay, taps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/blocks/matrix_state_mixer.h"
#include "models/parameters.h"

namespace mixerbench::models {

// beta = sigmoid(z_1), times two with `allow_neg_eigval`, and with a decay (parameters A_log and
// dt_bias) log decay = -exp(A_log) softplus(z_2 + dt_bias). Sets layout.gate_columns to
// [z_1, z_2], one column a head each, and what is tapped to beta.
GateFunction MakeDeltaRuleGates(MatrixLayout& layout, bool has_decay, bool allow_neg_eigval,
                                const ParameterScope& scope);

// [B,T,H], without gradient: the norm of what each key recalls of the state that it meets, which is
// decayed: |exp(log decay) S_{t-1}^T k_t|. From args.initial_state; undefined: zeros.
at::Tensor DeltaErasedNorm(const kernels::RecurrenceArgs& args, ExecutionPath path);

// The core, with one state, "state" [H,K,V]. Taps: state, state_norm and erase [B,T,H],
// DeltaErasedNorm.
MatrixCore DeltaRuleCore(const MatrixLayout& layout);

}  // namespace mixerbench::models
