// What device code there is for the linear recurrence, and how it cuts a sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels::linear_recurrence {

// The one plan, chunk_scan, takes any number of channels.
const std::vector<DevicePlan>& DevicePlans();

// Tokens of a chunk, which one thread takes in order. Powers of a constant decay beyond a chunk are
// exponentials in fp64, so its rounding to fp32 is raised to this power at most.
constexpr int kChunk = 32;

constexpr std::int64_t NumChunks(std::int64_t seq_len) { return (seq_len + kChunk - 1) / kChunk; }

}  // namespace mixerbench::kernels::linear_recurrence
