// What device code there is for DPLR, and how it cuts a head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels::dplr {

// A warp goes through all tokens with its columns of the state in registers.
inline constexpr std::string_view kTokenScanPlan = "token_scan";

// The one plan, token_scan.
const std::vector<DevicePlan>& DevicePlans();

// The lanes of a warp share the rows and the columns of their part of the state: 8 x 4 lanes, 32
// elements each.
constexpr int kKeyLanes = 8;
constexpr int kValueLanes = 4;
constexpr int kStatesPerLane = 32;
constexpr int kStatesPerWarp = kKeyLanes * kValueLanes * kStatesPerLane;

constexpr int kMaxKeys = 128;
constexpr int kMaxWarps = 4;  // of a CTA
// The forward pass keeps the state before every chunk of so many tokens.
constexpr int kChunk = 8;
// The states of so many tokens are in shared memory at once in the backward pass.
constexpr int kPart = 4;

// Key channels with padding.
constexpr int PaddedKeys(std::int64_t head_k_dim) {
  return head_k_dim <= 32 ? 32 : head_k_dim <= 64 ? 64 : kMaxKeys;
}

constexpr std::int64_t NumChunks(std::int64_t seq_len) { return (seq_len + kChunk - 1) / kChunk; }

// Which columns of a head a CTA owns.
struct ValueTiling {
  std::int64_t num_blocks = 0;  // CTAs of a head
  int num_warps = 0;            // of a CTA

  static constexpr ValueTiling Of(std::int64_t head_k_dim, std::int64_t head_v_dim) {
    const std::int64_t width = kStatesPerWarp / PaddedKeys(head_k_dim);
    const std::int64_t tiles = (head_v_dim + width - 1) / width;
    const std::int64_t blocks = (tiles + kMaxWarps - 1) / kMaxWarps;
    return {.num_blocks = blocks, .num_warps = static_cast<int>((tiles + blocks - 1) / blocks)};
  }
};

}  // namespace mixerbench::kernels::dplr
