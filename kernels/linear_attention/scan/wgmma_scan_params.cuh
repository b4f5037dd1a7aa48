// What both warpgroups of a scan in chunks see: its kind, its position, a slot of shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/warpgroup.cuh"
#include "kernels/linear_attention/scan/decay_scan_params.cuh"
#include "kernels/linear_attention/scan/wgmma_scan_layout.h"

namespace mixerbench::kernels::decay_scan {

// Decays are summed as binary logarithms, which cost an exponential one instruction.
constexpr float kLog2E = 1.44269504f;

// What a scan leaves behind. Kernels are compiled for each, so that none holds registers for what
// only another does.
enum class WgmmaScanKind {
  kSum,      // the state alone
  kRead,     // `out`
  kSave,     // `out`, token_products and states_to_save
  kCompare,  // `out`, token_products and state_products
};

constexpr bool HasFactor(WgmmaScanKind kind) {
  return kind == WgmmaScanKind::kSave || kind == WgmmaScanKind::kCompare;
}

// Numbers that belong to the tokens of a chunk.
struct ChunkTokens {
  float gates[kChunkTokens];
  float x_factors[kChunkTokens], y_factors[kChunkTokens];  // decay_scan.md
  float decay, log2_decay;                                 // of the chunk
  float unused[2];
};
static_assert(sizeof(ChunkTokens) == WgmmaScanLayout::kTokenBytes);

// One chunk in shared memory.
template <int kKeys>
struct ChunkSlot {
  static constexpr int kKeyTiles = kKeys / 64;

  warpgroup::Tile *x, *y, *z, *scores, *factor;
  ChunkTokens* tokens;

  __device__ ChunkSlot(char* memory, const WgmmaScanLayout& layout, int index) {
    x = reinterpret_cast<warpgroup::Tile*>(memory + index * layout.slot_bytes);
    y = x + kKeyTiles;
    z = y + kKeyTiles;
    scores = z + 1;
    factor = z + 2;
    tokens = reinterpret_cast<ChunkTokens*>(memory + layout.tokens) + index;
  }
};

// One (b, h), tile of value channels and segment of time.
struct ChunkPosition : ScanPosition {
  int num_chunks;

  __device__ ChunkPosition(const ScanParams& p, int index) : ScanPosition(p, index) {
    constexpr int kBlocks = kChunkTokens / kBlockTokens;
    num_chunks = (num_blocks + kBlocks - 1) / kBlocks;
    first_token = segment * p.tokens_per_segment;
    if (p.reverse) first_token += (num_chunks - 1) * kChunkTokens;
  }

  // First token of the n-th chunk of this scan.
  __device__ int ChunkBegin(const ScanParams& p, int n) const {
    return p.reverse ? first_token - n * kChunkTokens : first_token + n * kChunkTokens;
  }
};

__device__ inline int NumPositions(const ScanParams& p) {
  return p.num_value_tiles * p.num_sequences * p.num_segments;
}

// A place among the chunks of all positions that a CTA scans, one after the other.
struct ChunkStream {
  const ScanParams& p;
  int index = static_cast<int>(blockIdx.x);
  ChunkPosition at;
  int n = 0;  // of the chunks at this position

  __device__ ChunkStream(const ScanParams& params, int first) : p(params), at(params, index) {
    Advance(first);
  }

  __device__ bool HasEnded() const { return index >= NumPositions(p); }

  __device__ void Advance(int steps) {
    n += steps;
    while (!HasEnded() && n >= at.num_chunks) {
      n -= at.num_chunks;
      index += static_cast<int>(gridDim.x);
      if (!HasEnded()) at = ChunkPosition(p, index);
    }
  }
};

}  // namespace mixerbench::kernels::decay_scan
