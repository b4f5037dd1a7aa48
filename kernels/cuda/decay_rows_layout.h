// Shared memory of the kernels for chosen rows, used by them and by their plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/host_device.h"

namespace mixerbench::kernels::cuda {

constexpr int kRowTile = 16;     // rows of one matrix product
constexpr int kKeyBlock = 16;    // keys of one
constexpr int kMaxRowWarps = 8;  // of a block of threads

// Elements between rows of `columns` bf16 elements in shared memory: rows of a fragment on all
// banks.
MIXERBENCH_HOST_DEVICE constexpr int RowsStride(int columns) { return columns + 8; }

enum class RowsPass { kForward, kBackward };

// How a problem is cut.
struct DecayRowsCut {
  int num_blocks;  // of keys
  int num_tiles;   // of rows
  int num_warps;   // of a block of threads

  MIXERBENCH_HOST_DEVICE constexpr DecayRowsCut(std::int64_t seq_len, std::int64_t num_rows)
      : num_blocks(static_cast<int>((seq_len + kKeyBlock - 1) / kKeyBlock)),
        num_tiles(static_cast<int>((num_rows + kRowTile - 1) / kRowTile)),
        num_warps(num_blocks < kMaxRowWarps ? num_blocks : kMaxRowWarps) {}
};

// Byte offsets; every part starts at a multiple of 16. Gates, k and v hold all tokens, rounded up
// to whole blocks. The forward pass has one tile of rows at a time, the backward pass all.
struct DecayRowsLayout {
  int gates = 0, k = 0, v = 0;                 // [tokens]
  int q = 0, d_o = 0, d_q = 0, row_gates = 0;  // [rows]
  int positions = 0;
  int prefix = 0;   // [blocks]
  int partial = 0;  // shares of d_q of half of the warps
  int bytes = 0;

  MIXERBENCH_HOST_DEVICE constexpr DecayRowsLayout(int keys, int values, const DecayRowsCut& cut,
                                                   RowsPass pass) {
    const bool backward = pass == RowsPass::kBackward;
    const int tokens = cut.num_blocks * kKeyBlock;
    const int rows = (backward ? cut.num_tiles : 1) * kRowTile;
    k = gates + tokens * RowsStride(keys) * 4;
    v = k + tokens * RowsStride(keys) * 2;
    q = v + tokens * RowsStride(values) * 2;
    row_gates = q + rows * RowsStride(keys) * 2;
    positions = row_gates + rows * RowsStride(keys) * 4;
    prefix = positions + rows * 4;
    bytes = prefix + cut.num_blocks * keys * 4;
    if (backward) {
      d_o = bytes;
      d_q = d_o + rows * RowsStride(values) * 2;
      partial = d_q + rows * keys * 4;
      const int shares = (cut.num_warps + 1) / 2 * kRowTile * RowsStride(keys) * 4;
      bytes = partial + shares;
      // With one tile of rows the shares are added when nobody reads the values any more.
      if (cut.num_tiles == 1 && shares <= q - v) {
        bytes = partial;
        partial = v;
      }
    }
  }
};

}  // namespace mixerbench::kernels::cuda
