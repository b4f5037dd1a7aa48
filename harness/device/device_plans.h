// What device code takes, for `list` and `describe`: the data that dispatchers decide by.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "kernels/runtime/device_plan.h"

namespace mixerbench::harness {

// [{"plan", "dtypes", "head_k_dim", "head_v_dim", "seq_len", "compute_capability", "when"}], the
// preferred plan first. A range is {"values", "multiple_of", "min", "max"}; null: none.
Value DevicePlansToValue(const std::vector<kernels::DevicePlan>& plans);

// The same, one plan a line: "fused  bf16  head_k_dim 64, ...".
std::string DevicePlansToText(const std::vector<kernels::DevicePlan>& plans);

}  // namespace mixerbench::harness
