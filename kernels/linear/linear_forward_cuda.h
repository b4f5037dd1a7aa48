// The product of a linear layer on raw pointers. linear_forward.cu defines it; device_stub.cc does
// in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

struct LinearForwardSizes {
  long long num_rows = 0;
  int in = 0;
  int out = 0;  // a multiple of 8
};

// What a warpgroup works on: 64 rows, 64 columns of the result at a time.
constexpr int kLinearForwardTile = 64;
constexpr int kMostLinearForwardGroups = 3;  // warpgroups of a block that multiply
constexpr int kLinearForwardResults = 2;     // panels of a warpgroup that are being stored
constexpr int kLinearForwardBlocks = 132;    // blocks that a GPU of this kernel runs at once

// How the shared memory of a block is used.
struct LinearForwardCut {
  int num_groups = 0;
  int num_panels = 0;  // of 64 rows of the weight, all of which stay there
  int num_stages = 0;  // tiles of x under way
  long long bytes = 0;
};

// As many warpgroups as there is room for; none when two are too many. The stages are divided among
// them: one that saw only some phases of a stage's barrier could take one for the next but one.
constexpr LinearForwardCut CutLinearForward(const LinearForwardSizes& sizes) {
  constexpr long long kMostBytes = 227 * 1024;
  constexpr int kMostStages = 8;
  constexpr long long kPanelBytes = 2 * kLinearForwardTile * kLinearForwardTile;
  constexpr long long kBarrier = 8;
  const long long tile_bytes = sizes.in / kLinearForwardTile * kPanelBytes;
  const long long stage_bytes = tile_bytes + 2 * kBarrier;
  const int panels = (sizes.out + kLinearForwardTile - 1) / kLinearForwardTile;
  // Tiles of the weight, its bias in fp32, a barrier for each.
  const long long weight_bytes = panels * (tile_bytes + 4 * kLinearForwardTile + kBarrier);
  for (int groups = kMostLinearForwardGroups; groups >= 2; --groups) {
    const long long fixed = weight_bytes + groups * kLinearForwardResults * kPanelBytes;
    const long long fitting =
        std::clamp<long long>((kMostBytes - fixed) / stage_bytes, 0, kMostStages);
    const long long stages = fitting / groups * groups;
    if (stages == 0) continue;
    return {.num_groups = groups,
            .num_panels = panels,
            .num_stages = static_cast<int>(stages),
            .bytes = fixed + stages * stage_bytes};
  }
  return {};
}

// Whether the device function takes these sizes, and is faster than cuBLAS: it is where much is
// written, and no less than is read.
constexpr bool LinearForwardSupports(const LinearForwardSizes& sizes) {
  constexpr long long kMinElements = 6 << 20;  // of the result
  return (sizes.in == 64 || sizes.in == 128) && sizes.out >= sizes.in && sizes.out % 8 == 0 &&
         sizes.num_rows * sizes.out >= kMinElements && CutLinearForward(sizes).num_groups > 0 &&
         sizes.num_rows <= std::numeric_limits<int>::max() - kLinearForwardTile;
}

struct LinearForwardArgs {
  LinearForwardSizes sizes;
  // bf16, rows at multiples of 16 bytes, none within another.
  ConstRows x;                 // [num_rows, in]
  ConstRows weight;            // [out, in]
  const void* bias = nullptr;  // [out] bf16, or absent
  Rows y;                      // [num_rows, out]
};

// Queues the work; returns the CUDA error code of the launch. LinearForwardSupports(args.sizes)
// on a GPU that IsHopper (hopper_cuda.h).
int LaunchLinearForward(const LinearForwardArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
