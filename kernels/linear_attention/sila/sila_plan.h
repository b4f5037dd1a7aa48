// What device code there is for SILA, and how it cuts a head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels::sila {

// A CTA goes through all tokens of a head with the state in registers.
inline constexpr std::string_view kTokenScanPlan = "token_scan";

// The one plan, token_scan.
const std::vector<DevicePlan>& DevicePlans();

constexpr int kMaxKeys = 128;
constexpr int kMaxValues = 128;

// The lanes of a warp share the rows and the columns of their part of the state: 8 x 4 lanes, 32
// elements each.
constexpr int kKeyLanes = 8;
constexpr int kValueLanes = 4;
constexpr int kStatesPerLane = 32;
constexpr int kStatesPerWarp = kKeyLanes * kValueLanes * kStatesPerLane;

// The forward pass keeps the state before every chunk of so many tokens.
constexpr int kChunk = 8;
// The states of so many tokens, of all warps, are in shared memory at once in the backward pass.
constexpr int kMaxPart = 4;
constexpr int kStatesInMemory = 16;

// Key channels with padding.
constexpr int PaddedKeys(std::int64_t head_k_dim) {
  return head_k_dim <= 32 ? 32 : head_k_dim <= 64 ? 64 : kMaxKeys;
}
// Columns of the state that a warp owns.
constexpr int WarpColumns(int padded_keys) { return kStatesPerWarp / padded_keys; }
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

constexpr std::int64_t NumChunks(std::int64_t seq_len) { return (seq_len + kChunk - 1) / kChunk; }

}  // namespace mixerbench::kernels::sila
