// Shared memory of a scan in chunks of 64 tokens, used by the kernel and by its plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/scan/decay_scan_layout.h"

namespace mixerbench::kernels::decay_scan {

// Tokens that a step of a scan by warpgroups takes.
constexpr int kChunkTokens = 64;

// Warpgroups that load and prepare a chunk each.
constexpr int kWgmmaScanProducers = 2;

// Byte offsets from a multiple of kAlignment. First `num_slots` slots of one chunk: tiles of 64x64
// bf16 with the channels of x, of y and of z, the scores and the factor of `out`. Then what has a
// number per token, then the barriers.
struct WgmmaScanLayout {
  static constexpr int kAlignment = 1024;
  static constexpr int kTileBytes = 64 * 64 * 2;
  static constexpr int kTokenBytes = 4 * (3 * kChunkTokens + 4);  // of a slot
  static constexpr int kScratchBytes = 4 * kChunkTokens * 4;      // of the warps of a producer

  int slot_bytes, tokens, scratch, barriers;
  int bytes;  // with room to align the first slot

  MIXERBENCH_HOST_DEVICE constexpr WgmmaScanLayout(int keys, int num_slots, bool has_factor)
      : slot_bytes((2 * (keys / 64) + 2 + (has_factor ? 1 : 0)) * kTileBytes),
        tokens(num_slots * slot_bytes),
        scratch(tokens + num_slots * kTokenBytes),
        barriers(scratch + kWgmmaScanProducers * kScratchBytes),
        bytes(barriers + 16 * num_slots + kAlignment) {}
};

}  // namespace mixerbench::kernels::decay_scan
