// The norm of heads followed by a linear layer, on raw pointers. norm_linear_forward.cu and
// norm_linear_backward.cu define the functions; device_stub.cc does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/fused/element.h"

struct CUstream_st;

namespace mixerbench::kernels::fused {

struct NormLinearSizes {
  long long num_rows = 0;
  int head_dim = 0;
  int in = 0;  // of all heads
  int out = 0;
  float eps = 0;
};

constexpr int kNormLinearTile = 64;      // rows that a block works on at a time
constexpr int kNormLinearColumns = 128;  // of x, of a block of the backward pass
constexpr int kNormLinearBlocks = 132;   // that a GPU of these kernels runs at once

// Whether the device functions take these sizes, and are faster than the norm and the linear layer
// one after the other: it leaves to them what has few rows. A tile may end in rows of zeros, whose
// norm must exist.
constexpr bool NormLinearTakes(const NormLinearSizes& sizes) {
  constexpr int kMinRows = 4096;
  const auto is_either = [](int x, int a, int b) { return x == a || x == b; };
  return sizes.eps > 0 && is_either(sizes.head_dim, 64, 128) && is_either(sizes.in, 128, 256) &&
         is_either(sizes.out, 64, 128) && sizes.num_rows >= kMinRows &&
         sizes.num_rows <= std::numeric_limits<int>::max() - kNormLinearTile;
}

// Parts into which the rows are cut, whose sums of the weights' gradients are added afterwards: a
// function of the sizes alone.
constexpr int NormLinearParts(const NormLinearSizes& sizes) {
  const long long tiles = (sizes.num_rows + kNormLinearTile - 1) / kNormLinearTile;
  const long long most = kNormLinearBlocks / (sizes.in / kNormLinearColumns);
  return static_cast<int>(std::clamp<long long>(tiles, 1, most));
}

// Floats of scratch of the backward pass: of each part the gradient of the weight, then of each
// part and head that of the norm's.
constexpr long long NormLinearScratch(const NormLinearSizes& sizes) {
  return static_cast<long long>(NormLinearParts(sizes)) * sizes.in * (sizes.out + 1);
}

// Matrices are bf16, their rows at multiples of 16 bytes, none within another.
struct NormLinearForwardArgs {
  NormLinearSizes sizes;
  ConstRows x;                         // [num_rows, in]
  const float* norm_weight = nullptr;  // [head_dim]
  ConstRows weight;                    // [out, in]
  Rows y;                              // [num_rows, out]
};

struct NormLinearBackwardArgs {
  NormLinearSizes sizes;
  ConstRows x;
  const float* norm_weight = nullptr;
  ConstRows weight;
  ConstRows d_y;  // [num_rows, out]

  Rows d_x;                        // [num_rows, in]
  float* d_norm_weight = nullptr;  // [head_dim]
  float* d_weight = nullptr;       // [out, in], dense
  float* scratch = nullptr;        // NormLinearScratch(sizes) floats at a multiple of 16 bytes
};

// Queue the work; return the CUDA error code of the launch. NormLinearTakes(args.sizes)
// on a GPU that IsHopper (hopper_device.h).
int LaunchNormLinearForward(const NormLinearForwardArgs& args, CUstream_st* stream);
int LaunchNormLinearBackward(const NormLinearBackwardArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels::fused
