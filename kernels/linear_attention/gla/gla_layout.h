// Shared memory of the fused plan, used by its kernels and by the function that chooses it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/host_device.h"

namespace mixerbench::kernels::gla {

constexpr int kFusedWarps = 4;                          // of a CTA
constexpr int kFusedBlock = 16;                         // tokens of a warp
constexpr int kFusedChunk = kFusedWarps * kFusedBlock;  // tokens of a step
constexpr int kMaxFusedValues = kFusedWarps * 16;       // a warp holds the state of 16 values

enum class FusedPass { kForward, kBackward };

// Byte offsets. Tiles of the tokens of a chunk; a state for each of its blocks, [V,K] in bf16; then
// numbers that belong to channels: decays [block][K], and boundaries [block][part][K], a part for
// every 16 values and one for the tokens.
struct FusedLayout {
  int gates, q, k, v, d_o, states;
  int decays, boundaries, flags;
  int bytes;

  MIXERBENCH_HOST_DEVICE constexpr FusedLayout(int keys, int values, FusedPass pass)
      : gates(0),
        q(kFusedChunk * keys * 4),
        k(q + kFusedChunk * keys * 2),
        v(k + kFusedChunk * keys * 2),
        d_o(v + kFusedChunk * values * 2),
        states(d_o + (pass == FusedPass::kBackward ? kFusedChunk * values * 2 : 0)),
        decays(states + kFusedWarps * keys * values * 2),
        boundaries(decays + kFusedWarps * keys * 4),
        flags(boundaries +
              (pass == FusedPass::kBackward ? kFusedWarps * (values / 16 + 1) * keys * 4 : 0)),
        bytes(flags + kFusedWarps * 4) {}
};

// Chunks of a sequence.
MIXERBENCH_HOST_DEVICE constexpr std::int64_t NumFusedChunks(std::int64_t seq_len) {
  return (seq_len + kFusedChunk - 1) / kFusedChunk;
}

}  // namespace mixerbench::kernels::gla
