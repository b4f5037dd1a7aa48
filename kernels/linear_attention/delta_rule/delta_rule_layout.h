// Shared memory of the delta rule's kernels in bytes: what the plan counts and the kernels hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/linear_attention/delta_rule/delta_rule_kernels.h"

namespace mixerbench::kernels::delta_rule {

constexpr int kMaxScanColumns = 64;
constexpr int kNumGates = 4;
constexpr int kNumScanStages = 2;

// A tile of rows in shared memory, each padded by 8 elements against bank conflicts.
constexpr std::int64_t TileBytes(std::int64_t element_size, std::int64_t rows,
                                 std::int64_t columns) {
  return element_size * rows * (columns + 8);
}

// q, k, V or dO, X, A and gates of one chunk.
constexpr std::int64_t ScanStageBytes(std::int64_t element_size, std::int64_t chunk_size,
                                      std::int64_t head_k_dim) {
  return 2 * TileBytes(element_size, chunk_size, head_k_dim) +
         TileBytes(element_size, chunk_size, kMaxScanColumns) +
         2 * TileBytes(element_size, chunk_size, chunk_size) + 4 * kNumGates * chunk_size;
}

constexpr std::int64_t ScanBytes(std::int64_t element_size, std::int64_t chunk_size,
                                 std::int64_t head_k_dim) {
  return kNumScanStages * ScanStageBytes(element_size, chunk_size, head_k_dim);
}

// dO, Y, P, V and the two states, for as many columns of V as a chunk has tokens.
constexpr std::int64_t GradientStageBytes(std::int64_t element_size, std::int64_t chunk_size,
                                          std::int64_t head_k_dim) {
  return 4 * TileBytes(element_size, chunk_size, chunk_size) +
         2 * TileBytes(element_size, chunk_size, head_k_dim);
}

// A bound of what DeltaRuleGradients holds besides its stages: q, k, two matrices of pairs, gates,
// sums.
constexpr std::int64_t GradientBaseBytes(std::int64_t element_size, std::int64_t chunk_size,
                                         std::int64_t head_k_dim) {
  return 2 * TileBytes(element_size, chunk_size, head_k_dim) +
         2 * TileBytes(element_size, chunk_size, chunk_size) + 4 * (kNumGates + 8) * chunk_size;
}

// What the kernels of the fused plan hold at most, those that scan 64 columns of V by warpgroups
// too.
constexpr std::int64_t kFusedBytes = 227 * 1024;

}  // namespace mixerbench::kernels::delta_rule
