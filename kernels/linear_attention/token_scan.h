// A scan over tokens with a matrix state [K,V] in the registers of warps: how a head is cut, for
// host and device code. No torch, no CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace mixerbench::kernels::token_scan {

// A warp goes through all tokens with its columns of the state in registers.
inline constexpr std::string_view kTokenScanPlan = "token_scan";

// The lanes of a warp share the rows and the columns of their part of the state: 8 x 4 lanes, 32
// elements each.
constexpr int kKeyLanes = 8;
constexpr int kValueLanes = 4;
constexpr int kStatesPerLane = 32;
constexpr int kStatesPerWarp = kKeyLanes * kValueLanes * kStatesPerLane;

constexpr int kMaxKeys = 128;
// The forward pass keeps the state before every chunk of so many tokens.
constexpr int kChunk = 8;

constexpr std::int64_t NumChunks(std::int64_t seq_len) { return (seq_len + kChunk - 1) / kChunk; }

// Key channels with padding.
constexpr int PaddedKeys(std::int64_t head_k_dim) {
  return head_k_dim <= 32 ? 32 : head_k_dim <= 64 ? 64 : kMaxKeys;
}
// Columns of the state that a warp owns.
constexpr int WarpColumns(int padded_keys) { return kStatesPerWarp / padded_keys; }

// run.template operator()<kKeys>() for the padded keys of heads with `head_k_dim` key channels.
template <typename Run>
int WithPaddedKeys(std::int64_t head_k_dim, const Run& run) {
  switch (PaddedKeys(head_k_dim)) {
    case 32:
      return run.template operator()<32>();
    case 64:
      return run.template operator()<64>();
    default:
      return run.template operator()<kMaxKeys>();
  }
}

}  // namespace mixerbench::kernels::token_scan
