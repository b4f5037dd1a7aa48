// What device code there is for SILA, and how it cuts a head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/linear_attention/token_scan.h"
#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels::sila {

// The one plan, token_scan.
const std::vector<DevicePlan>& DevicePlans();

using token_scan::kChunk;
using token_scan::kMaxKeys;
using token_scan::kStatesPerWarp;
using token_scan::kTokenScanPlan;
using token_scan::NumChunks;
using token_scan::PaddedKeys;
using token_scan::WarpColumns;

constexpr int kMaxValues = 128;
// The states of so many tokens, of all warps, are in shared memory at once in the backward pass.
constexpr int kMaxPart = 4;
constexpr int kStatesInMemory = 16;

// Warps of a CTA.
constexpr int MaxWarps(int padded_keys) { return kMaxValues / WarpColumns(padded_keys); }
constexpr int NumWarps(std::int64_t head_k_dim, std::int64_t head_v_dim) {
  const int width = WarpColumns(PaddedKeys(head_k_dim));
  return (static_cast<int>(head_v_dim) + width - 1) / width;
}
// Tokens of a chunk whose states are in shared memory at once.
constexpr int PartOf(int num_warps) {
  return num_warps * kMaxPart <= kStatesInMemory ? kMaxPart : kStatesInMemory / num_warps;
}
static_assert(kStatesInMemory >= MaxWarps(kMaxKeys));

}  // namespace mixerbench::kernels::sila
