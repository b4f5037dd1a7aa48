// What the backward passes of linear layers share: stages of tiles of x and of the gradient of the
// result, in which the gradient of x takes the place of x.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>

#include "kernels/fused/hopper.cuh"

namespace mixerbench::kernels::fused {

constexpr int kWeightGroups = 2;  // warpgroups that sum the weight's gradient; one more forms d_x

// By one thread, when it has made its other barriers. `memory` has stages, and barriers full,
// x_read, d_x_formed and empty for each.
template <typename Memory>
__device__ void InitStages(Memory& memory) {
  for (int stage = 0; stage < Memory::kStages; ++stage) {
    InitBarrier(&memory.full[stage], 1);
    InitBarrier(&memory.x_read[stage], kWeightGroups * kWarpgroup);
    InitBarrier(&memory.d_x_formed[stage], kWarpgroup);
    InitBarrier(&memory.empty[stage], kWeightGroups * kWarpgroup + 1);
  }
  cuda::ShowBarriersToCopies();
}

// Begins sums = a b over kSteps steps of depth: a a RowOperand in panels of so many bytes, b a
// ColumnOperand. More products may follow; the caller commits them.
template <int kSteps, int kSize>
__device__ void BeginSums(float (&sums)[kSize], std::uint64_t a, int panel_bytes, std::uint64_t b) {
  Pin(sums);
  warpgroup::Fence();
  MultiplyTiles<false>(sums, a, b);
#pragma unroll
  for (int k = 1; k < kSteps; ++k) {
    MultiplyTiles<true>(sums, a + RowOperandStep(k, panel_bytes), b + ColumnOperandStep(k));
  }
}

// The part of the one thread that stores the gradient of x: the panels x of each stage.
template <typename Memory, typename Work>
__device__ void StoreInputGradient(Memory& memory, const Work& work, const CUtensorMap& d_x) {
  for (int i = 0; i < work.count(); ++i) {
    const int s = i % Memory::kStages;
    WaitForPhase(&memory.d_x_formed[s], i / Memory::kStages & 1);
    auto& x = memory.stages[s].x;
    for (std::size_t panel = 0; panel < sizeof(x) / sizeof(x[0]); ++panel) {
      StorePanelToMatrix(d_x, work.row(i), work.column + static_cast<int>(panel) * kPanelWidth,
                         x[panel]);
    }
    cuda::WaitForWrites<0>();
    Arrive(&memory.empty[s]);
  }
}

}  // namespace mixerbench::kernels::fused
