// Heads of queries that share keys, values, gates and states (grouped queries).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/recurrence.h"
#include "models/blocks/matrix_state_mixer.h"

namespace mixerbench::models {

// Heads of keys, values and slots by the option num_kv_heads, which divides those of queries; 0: as
// many. Throws ConfigError below `where`.
void GroupQueries(std::int64_t num_kv_heads, const std::string& where, MatrixLayout& layout);

// What the heads of a group of `group` have in common, along `dim`, for each of them. Undefined
// tensors stay.
void RepeatHeads(std::int64_t group, std::int64_t dim, std::initializer_list<at::Tensor*> tensors);

// Of states [B,H,.,.] that are the same for all heads of a group: [B,H / group,.,.].
at::Tensor FirstOfGroups(const at::Tensor& state, std::int64_t group);

// OneState, "state" [num_heads,K,V], which layout.queries_per_key heads of queries read.
MatrixCore GroupedState(kernels::RecurrenceFunction core, const MatrixLayout& layout);

}  // namespace mixerbench::models
