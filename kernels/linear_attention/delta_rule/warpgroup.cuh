// What the kernels of the delta rule on warpgroups share beside kernels/device/warpgroup.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/warpgroup.cuh"

namespace mixerbench::kernels::delta_rule::warpgroup {

using namespace device::warpgroup;  // one vocabulary for tiles, products and chunks
using device::Accumulators;

// A barrier of one warpgroup, or of several: `count` threads.
__device__ inline void SyncGroup(int barrier, int count = kThreads) {
  SyncThreads(barrier + 1, count);
}

// kCopyThreads threads, the block or a warpgroup of it, copy rows of kTiles * 64 columns into as
// many tiles; those from num_valid on become zeros. With kLower, 16x16 blocks above the diagonal
// become zeros too.
template <int kCopyThreads, int kTiles, bool kLower = false>
__device__ void CopyRowsAsync(Tile* tiles, const Element* source, std::int64_t source_stride,
                              int num_valid) {
  constexpr int kPiecesPerRow = kTiles * kTileColumns / 8;
  constexpr int kRowsPerStep = kCopyThreads / kPiecesPerRow;
  static_assert(kCopyThreads % kPiecesPerRow == 0 && kTileRows % kRowsPerStep == 0);
  const int thread = static_cast<int>(threadIdx.x) % kCopyThreads;
  const int piece = thread % kPiecesPerRow;
  const int first = thread / kPiecesPerRow;
  Tile& tile = tiles[piece / 8];
  const Element* from = source + first * source_stride + piece * 8;
#pragma unroll
  for (int step = 0; step < kTileRows / kRowsPerStep; ++step) {
    const int row = first + step * kRowsPerStep;
    const bool valid = row < num_valid && (!kLower || piece / 2 <= row / 16);
    device::CopyAsync16(tile.x + Swizzled(row, piece % 8 * 8), valid ? from : source, valid);
    from += kRowsPerStep * source_stride;
  }
}

}  // namespace mixerbench::kernels::delta_rule::warpgroup
