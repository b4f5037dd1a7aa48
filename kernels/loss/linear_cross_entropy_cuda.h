// Device functions of linear_cross_entropy.h on raw pointers. linear_cross_entropy.cu defines them;
// device_stub.cc does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

struct CUstream_st;

namespace mixerbench::kernels {

struct LinearCrossEntropySizes {
  long long num_rows = 0;
  int vocab_size = 0;
  int width = 0;
};

// Rows or words of a block, and how many blocks a GPU of these kernels runs at once.
constexpr int kHeadTile = 128;
constexpr int kHeadBlocks = 132;

constexpr long long HeadTiles(long long rows) { return (rows + kHeadTile - 1) / kHeadTile; }

// Whether device functions take these sizes. Those of small vocabularies, which have too few tiles
// to fill a GPU, they leave to two products and SoftmaxCrossEntropy.
constexpr bool LinearCrossEntropySupports(const LinearCrossEntropySizes& sizes) {
  return (sizes.width == 64 || sizes.width == 128) && sizes.num_rows > 0 &&
         sizes.num_rows <= std::numeric_limits<int>::max() - kHeadTile &&
         sizes.vocab_size >= kHeadBlocks / 4 * kHeadTile &&
         sizes.vocab_size <= std::numeric_limits<int>::max() - kHeadTile;
}

// How the forward pass is cut, a function of the sizes alone: sums have the same order on any GPU.
struct LinearCrossEntropyCut {
  long long padded_rows = 0;  // num_rows up to a multiple of a tile
  int num_parts = 0;          // of the vocabulary
};

constexpr int kMaxVocabularyParts = 8;

constexpr LinearCrossEntropyCut CutLinearCrossEntropy(const LinearCrossEntropySizes& sizes) {
  const long long row_tiles = HeadTiles(sizes.num_rows);
  const long long most = std::min<long long>(kMaxVocabularyParts, HeadTiles(sizes.vocab_size));
  return {.padded_rows = row_tiles * kHeadTile,
          .num_parts = static_cast<int>(std::clamp<long long>(kHeadBlocks / row_tiles, 1, most))};
}

struct LinearCrossEntropyArgs {
  LinearCrossEntropySizes sizes;
  // bf16, rows at multiples of 16 bytes.
  const void* hidden = nullptr;  // [num_rows, width]
  long long hidden_stride = 0;   // elements
  const void* weight = nullptr;  // [vocab_size, width]
  long long weight_stride = 0;
  const std::int64_t* targets = nullptr;  // [num_rows]; negative: the row does not count

  float* loss = nullptr;           // mean nll of the rows that count
  float* inverse_count = nullptr;  // 1 / how many they are

  // What the forward pass leaves for the backward pass; exponents are to base 2.
  float* part_sums = nullptr;      // [num_parts, padded_rows, width] of weights, times exponentials
  float* part_shifts = nullptr;    // [num_parts, padded_rows], to which those are relative
  float* part_totals = nullptr;    // [num_parts, padded_rows] of exponentials
  float* target_logits = nullptr;  // [padded_rows]
  float* log_totals = nullptr;     // [padded_rows] log2 of sum of exp; infinite: does not count
  int* row_targets = nullptr;      // [padded_rows]; -1: does not count

  // Backward alone.
  const float* d_loss = nullptr;  // one float
  void* d_hidden = nullptr;       // [num_rows, width] bf16, dense
  float* d_weight = nullptr;      // [vocab_size, width], dense
};

// Queue the work; return the CUDA error code of the launch. LinearCrossEntropySupports(args.sizes)
// on a GPU that IsHopper (hopper_cuda.h).
int LaunchLinearCrossEntropyForward(const LinearCrossEntropyArgs& args, CUstream_st* stream);
int LaunchLinearCrossEntropyBackward(const LinearCrossEntropyArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
