// What kernels share that keep the weight of a linear layer in shared memory and stream tiles of x
// past it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/ring_cursor.cuh"
#include "kernels/fused/hopper.cuh"
#include "kernels/fused/linear_forward_device.h"

namespace mixerbench::kernels::fused::linear_forward {

constexpr int kTile = kLinearForwardTile;
constexpr int kPanelBytes = kTile * kTileRowBytes;
static_assert(kTile == kPanelWidth);

// Of 64 rows of x or of the weight.
template <int kIn>
constexpr int kTileBytes = kIn / kPanelWidth* kPanelBytes;

template <int kIn>
__device__ void CopyTile(std::uint8_t* to, const CUtensorMap& matrix, int row,
                         std::uint64_t* barrier) {
  cuda::ArriveAndExpectBytes(barrier, kTileBytes<kIn>);
#pragma unroll
  for (int column = 0; column < kIn; column += kPanelWidth) {
    CopyPanel(to + column / kPanelWidth * kPanelBytes, matrix, row, column, barrier);
  }
}

// The rows of a tile of x that a warp multiplies: 16 from first_row on.
template <int kIn>
struct RowFragments {
  static constexpr int kSteps = kIn / kProductDepth;
  std::uint32_t x[kSteps][4];

  __device__ RowFragments(const std::uint8_t* tile, int first_row) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) LoadFragment(x[k], tile, first_row, k, kPanelBytes);
  }

  // No use of them moves past this point, which stands after the last product.
  __device__ void Pin() {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) fused::Pin(x[k]);
  }
};

// Sums of the warpgroup's rows with a panel of the weight, from `bias` [kTile] on.
template <int kIn>
__device__ void FormPanel(float (&sums)[32], const RowFragments<kIn>& rows,
                          const std::uint8_t* weight_panel, const float* bias) {
  const float* mine = bias + threadIdx.x % 4 * 2;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 two = *reinterpret_cast<const float2*>(mine + 8 * j);
    sums[4 * j] = sums[4 * j + 2] = two.x;
    sums[4 * j + 1] = sums[4 * j + 3] = two.y;
  }
  const std::uint64_t weight = RowOperand(SharedAddress(weight_panel));
  Pin(sums);
  warpgroup::Fence();
#pragma unroll
  for (int k = 0; k < RowFragments<kIn>::kSteps; ++k) {
    MultiplyRows(sums, rows.x[k], weight + RowOperandStep(k, kPanelBytes));
  }
  warpgroup::Commit();
  warpgroup::Wait<0>();
  Pin(sums);
}

// launch.template operator()<in>() for the widths of x that there are kernels for.
template <typename F>
int LaunchForWidth(int in, F launch) {
  switch (in) {
    case 64:
      return launch.template operator()<64>();
    case 128:
      return launch.template operator()<128>();
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace mixerbench::kernels::fused::linear_forward
