// What device code there is for DPLR, and how it cuts a head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/linear_attention/token_scan.h"
#include "kernels/runtime/device_plan.h"

namespace mixerbench::kernels::dplr {

// The one plan, token_scan.
const std::vector<DevicePlan>& DevicePlans();

using token_scan::kChunk;
using token_scan::kMaxKeys;
using token_scan::kStatesPerWarp;
using token_scan::kTokenScanPlan;
using token_scan::NumChunks;
using token_scan::PaddedKeys;
using token_scan::WarpColumns;

constexpr int kMaxWarps = 4;  // of a CTA
// The states of so many tokens are in shared memory at once in the backward pass.
constexpr int kPart = 4;

// Which columns of a head a CTA owns.
struct ValueTiling {
  std::int64_t num_blocks = 0;  // CTAs of a head
  int num_warps = 0;            // of a CTA

  static constexpr ValueTiling Of(std::int64_t head_k_dim, std::int64_t head_v_dim) {
    const std::int64_t width = WarpColumns(PaddedKeys(head_k_dim));
    const std::int64_t tiles = (head_v_dim + width - 1) / width;
    const std::int64_t blocks = (tiles + kMaxWarps - 1) / kMaxWarps;
    return {.num_blocks = blocks, .num_warps = static_cast<int>((tiles + blocks - 1) / blocks)};
  }
};

}  // namespace mixerbench::kernels::dplr
