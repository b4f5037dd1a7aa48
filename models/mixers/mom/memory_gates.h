// What makes a memory of a recurrence: its core, and its gates from columns of the projection.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/recurrence.h"
#include "models/blocks/routed_states.h"
#include "models/mixers/mom/mom.h"
#include "models/parameters.h"

namespace mixerbench::models::mom {

struct MemoryGates {
  kernels::RecurrenceFunction core;
  std::int64_t num_columns = 0;    // for the gates of all memories
  std::int64_t layer_columns = 0;  // of each projection among them
  bool normalises = false;         // takes queries and keys of length one, silu convolved or not
  // Fills in `memories.log_decay` and, for a delta rule, `beta` [B,T,S,H] of all S memories that
  // have gates of their own.
  std::function<void(const at::Tensor& columns, kernels::ExecutionPath path, RoutedArgs& memories)>
      fill;
};

// Of `num_sets` memories with gates of their own, the last one shared by all tokens if use_shared.
// Gated DeltaNet has the parameters A_log and dt_bias for all; gated linear attention
// memories.<i>.decay_proj and shared.decay_proj.
MemoryGates MakeMemoryGates(const MomConfig& config, std::int64_t num_sets, std::int64_t head_k_dim,
                            const ParameterScope& scope);

}  // namespace mixerbench::models::mom
