// Gradients of a linear layer on raw pointers, in one pass over the gradient of its result.
// linear_backward.cu defines them; device_stub.cc does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

struct LinearBackwardSizes {
  long long num_rows = 0;
  int in = 0;
  int out = 0;  // a multiple of 8
  bool has_bias = false;
};

// What a block works on: 64 rows at a time, 64 columns of x.
constexpr int kLinearTile = 64;
constexpr int kLinearBlocks = 132;  // blocks that a GPU of this kernel runs at once

// How columns of the gradient are cut: into panels of 64 for two warpgroups, which have as many
// each, and maybe a tail of at most 16, for which there are no sums for a bias.
struct LinearBackwardColumns {
  int panels = 0;  // of a warpgroup
  bool has_tail = false;
};

constexpr LinearBackwardColumns CutLinearColumns(const LinearBackwardSizes& sizes) {
  constexpr int kPair = 2 * kLinearTile;
  constexpr int kTail = 16;
  const int pairs = sizes.out / kPair;
  const int rest = sizes.out % kPair;
  if (rest == 0) return {.panels = pairs, .has_tail = false};
  if (pairs > 0 && rest <= kTail && !sizes.has_bias) return {.panels = pairs, .has_tail = true};
  return {.panels = pairs + 1, .has_tail = false};
}

// Registers suffice for so many.
constexpr int kMaxLinearPanels = 4;
constexpr int kMaxBiasPanels = 3;

// Whether the device function takes these sizes, and is faster than a matrix product for each
// gradient: it leaves to them what has few rows.
constexpr bool LinearBackwardSupports(const LinearBackwardSizes& sizes) {
  constexpr int kMinRows = 4096;
  const int most = sizes.has_bias ? kMaxBiasPanels : kMaxLinearPanels;
  return (sizes.in == 64 || sizes.in == 128 || sizes.in == 256) && sizes.out > 0 &&
         sizes.out % 8 == 0 && CutLinearColumns(sizes).panels <= most &&
         sizes.num_rows >= kMinRows &&
         sizes.num_rows <= std::numeric_limits<int>::max() - kLinearTile;
}

// Parts into which the rows are cut, whose sums of the weight's gradient are added afterwards: a
// function of the sizes alone.
constexpr int LinearBackwardParts(const LinearBackwardSizes& sizes) {
  const long long tiles = (sizes.num_rows + kLinearTile - 1) / kLinearTile;
  const long long most = kLinearBlocks / (sizes.in / kLinearTile);
  return static_cast<int>(std::clamp<long long>(tiles, 1, most));
}

// Blocks of columns of x that share the sums for the bias.
constexpr int kMostBiasBlocks = 2;
constexpr int LinearBiasBlocks(int in) {
  return in < kMostBiasBlocks * kLinearTile ? in / kLinearTile : kMostBiasBlocks;
}

// Floats of scratch.
constexpr long long LinearBackwardScratch(const LinearBackwardSizes& sizes) {
  const long long width = sizes.in + LinearBiasBlocks(sizes.in);
  return LinearBackwardParts(sizes) * width * sizes.out;
}

struct LinearBackwardArgs {
  LinearBackwardSizes sizes;
  // bf16, rows at multiples of 16 bytes, none within another.
  ConstRows x;       // [num_rows, in]
  ConstRows weight;  // [out, in]
  ConstRows d_y;     // [num_rows, out]

  Rows d_x;                   // [num_rows, in] bf16, as above
  float* d_weight = nullptr;  // [out, in], dense
  float* d_bias = nullptr;    // [out], if sizes.has_bias
  float* scratch = nullptr;   // LinearBackwardScratch(sizes) floats at a multiple of 16 bytes
};

// Queues the work; returns the CUDA error code of the launch. LinearBackwardSupports(args.sizes)
// on a GPU that IsHopper (hopper_cuda.h).
int LaunchLinearBackward(const LinearBackwardArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
