// What a block of linear_backward.cu keeps in shared memory, and the work of its warpgroups.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>
#include <cuda_bf16.h>

#include "kernels/device/hopper.cuh"
#include "kernels/linear/linear_backward_cuda.h"

namespace mixerbench::kernels {

constexpr int kWeightGroups = 2;  // warpgroups that sum the weight's gradient; one more forms d_x
constexpr int kLinearProductThreads = (kWeightGroups + 1) * kWarpgroup;
constexpr int kLinearThreads = kLinearProductThreads + kWarpgroup;  // and one copies
constexpr int kLinearPanelBytes = kLinearTile * kTileRowBytes;
constexpr int kTileSteps = kLinearTile / kProductDepth;
static_assert(kLinearTile == kPanelWidth);

// 64 rows of the gradient of the result, and of 64 columns of x.
template <int kPanels, bool kTail>
struct LinearStage {
  static constexpr int kPanelsBytes = kWeightGroups * kPanels * kLinearPanelBytes;
  static constexpr int kTailBytes = kTail ? kLinearTile * kNarrowRowBytes : 0;

  std::uint8_t x[kLinearPanelBytes];  // later the gradient of x
  std::uint8_t d_y[kPanelsBytes + kTailBytes];

  __device__ std::uint8_t* panel(int index) { return d_y + index * kLinearPanelBytes; }
  __device__ std::uint8_t* tail() { return d_y + kPanelsBytes; }
};

template <int kPanels, bool kTail>
struct LinearMemory {
  using Stage = LinearStage<kPanels, kTail>;
  static constexpr int kOut = kWeightGroups * kPanels * kPanelWidth + (kTail ? kNarrowWidth : 0);
  static constexpr int kWeightBytes = kOut * kTileRowBytes;
  static constexpr int kMostBytes = 227 * 1024;
  static constexpr int kOtherBytes = 1024;
  static constexpr int kFitting = (kMostBytes - kWeightBytes - kOtherBytes) / sizeof(Stage);
  static constexpr int kStages = kFitting < 6 ? kFitting : 6;
  static_assert(kStages >= 2 && sizeof(Stage) % 1024 == 0);

  // Panels first: they start at multiples of 1024 bytes.
  std::uint8_t weight[kWeightBytes];
  Stage stages[kStages];
  __nv_bfloat16 ones[kUniformElements];
  std::uint64_t has_weight;
  std::uint64_t full[kStages];
  std::uint64_t x_read[kStages];  // by the warpgroups of the weight
  std::uint64_t d_x_formed[kStages];
  std::uint64_t empty[kStages];
};

// By one thread.
template <int kPanels, bool kTail>
__device__ void InitBarriers(LinearMemory<kPanels, kTail>& memory) {
  InitBarrier(&memory.has_weight, 1);
  for (int stage = 0; stage < LinearMemory<kPanels, kTail>::kStages; ++stage) {
    InitBarrier(&memory.full[stage], 1);
    InitBarrier(&memory.x_read[stage], kWeightGroups * kWarpgroup);
    InitBarrier(&memory.d_x_formed[stage], kWarpgroup);
    InitBarrier(&memory.empty[stage], kWeightGroups * kWarpgroup + 1);
  }
  device::ShowBarriersToCopies();
}

struct LinearMaps {
  CUtensorMap d_y;
  CUtensorMap d_y_tail;
  CUtensorMap x;
  CUtensorMap weight;
  CUtensorMap d_x;
};

// What a block does: 64 columns of x, every num_parts-th tile of rows. The last rows come first:
// they were written last, and are the most likely to be cached.
struct LinearWork {
  int part;
  int num_parts;
  int num_tiles;  // of all parts
  int column;     // first of the block

  __device__ explicit LinearWork(const LinearBackwardSizes& sizes)
      : num_tiles(static_cast<int>((sizes.num_rows + kLinearTile - 1) / kLinearTile)) {
    const int column_blocks = sizes.in / kLinearTile;
    const int block = static_cast<int>(blockIdx.x);
    part = block / column_blocks;
    num_parts = static_cast<int>(gridDim.x) / column_blocks;
    column = block % column_blocks * kLinearTile;
  }

  __device__ int count() const { return (num_tiles - part + num_parts - 1) / num_parts; }
  __device__ int row(int i) const { return (num_tiles - 1 - part - i * num_parts) * kLinearTile; }
};

// The part of the one thread that copies. The weight is needed last.
template <int kPanels, bool kTail>
__device__ void CopyLinearTiles(LinearMemory<kPanels, kTail>& memory, const LinearMaps& maps,
                                const LinearWork& work) {
  using Memory = LinearMemory<kPanels, kTail>;
  constexpr int kNumPanels = kWeightGroups * kPanels;
  for (int i = 0; i < work.count(); ++i) {
    const int s = i % Memory::kStages;
    if (i >= Memory::kStages) WaitForPhase(&memory.empty[s], i / Memory::kStages - 1 & 1);
    typename Memory::Stage& stage = memory.stages[s];
    std::uint64_t* barrier = &memory.full[s];
    const int row = work.row(i);
    device::ArriveAndExpectBytes(barrier, sizeof(stage));
    CopyPanel(stage.x, maps.x, row, work.column, barrier);
    for (int panel = 0; panel < kNumPanels; ++panel) {
      CopyPanel(stage.panel(panel), maps.d_y, row, panel * kPanelWidth, barrier);
    }
    if constexpr (kTail) {
      CopyPanel(stage.tail(), maps.d_y_tail, row, kNumPanels * kPanelWidth, barrier);
    }
    if (i > 0) continue;
    device::ArriveAndExpectBytes(&memory.has_weight, Memory::kWeightBytes);
    for (int k = 0; k < Memory::kOut; k += kProductDepth) {
      CopyPanel(memory.weight + k * kTileRowBytes, maps.weight, k, work.column, &memory.has_weight);
    }
  }
}

// The part of a warpgroup that sums 64 kPanels columns of d_y times the block's columns of x, from
// panel `first_panel` on and with the tail if there is one. For the bias, d_y alone is summed, by
// each of the blocks of the first 128 columns in kBiasSteps steps of a tile.
template <int kPanels, bool kTail, int kBiasSteps, bool kMemoryTail>
__device__ void SumWeightGradient(LinearMemory<kPanels, kMemoryTail>& memory,
                                  const LinearWork& work, int first_panel,
                                  const LinearBackwardArgs& args) {
  using Memory = LinearMemory<kPanels, kMemoryTail>;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  float sums[kPanels][32] = {};
  [[maybe_unused]] float tail[8] = {};
  [[maybe_unused]] float bias[kPanels][4] = {};
  [[maybe_unused]] const int bias_block = work.column / kLinearTile % kMostBiasBlocks;
  [[maybe_unused]] const std::uint64_t ones = UniformOperand(SharedAddress(memory.ones));
  for (int i = 0; i < work.count(); ++i) {
    const int s = i % Memory::kStages;
    typename Memory::Stage& stage = memory.stages[s];
    WaitForPhase(&memory.full[s], i / Memory::kStages & 1);
    std::uint32_t x[kTileSteps][4];
#pragma unroll
    for (int k = 0; k < kTileSteps; ++k) LoadTransposed(x[k], stage.x, k, thread / 32 * 16);
    std::uint64_t d_y[kPanels];
#pragma unroll
    for (int p = 0; p < kPanels; ++p) {
      d_y[p] = ColumnOperand(SharedAddress(stage.panel(first_panel + p)), kLinearPanelBytes);
      Pin(sums[p]);
    }
    warpgroup::Fence();
#pragma unroll
    for (int k = 0; k < kTileSteps; ++k) {
#pragma unroll
      for (int p = 0; p < kPanels; ++p) {
        MultiplyColumns(sums[p], x[k], d_y[p] + ColumnOperandStep(k));
      }
      if constexpr (kTail) {
        MultiplyColumns(tail, x[k], NarrowOperand(SharedAddress(stage.tail())) + k * kNarrowStep);
      }
    }
#pragma unroll
    for (int k = 0; k < kBiasSteps; ++k) {
#pragma unroll
      for (int p = 0; p < kPanels; ++p) {
        SumColumns(bias[p], d_y[p] + ColumnOperandStep(bias_block * kBiasSteps + k), ones);
      }
    }
    warpgroup::Commit();
    // Only now: an arrival does not wait for what ldmatrix reads, products of it do.
    Arrive(&memory.x_read[s]);
    warpgroup::Wait<0>();
#pragma unroll
    for (int k = 0; k < kTileSteps; ++k) Pin(x[k]);
#pragma unroll
    for (int p = 0; p < kPanels; ++p) {
      Pin(sums[p]);
      if constexpr (kBiasSteps > 0) Pin(bias[p]);
    }
    if constexpr (kTail) Pin(tail);
    Arrive(&memory.empty[s]);
  }
  const int out = args.sizes.out;
  // As LinearParts describes it: [part, block of columns, quad, thread, 4].
  auto* quads = reinterpret_cast<float4*>(args.scratch) +
                static_cast<long long>(blockIdx.x) * (out / 8 * kWarpgroup) + thread;
  const int first_quad = first_panel * 8;
  const auto store = [&](int quad, const float* sum) {
    if (first_quad + quad < out / 8) {
      quads[(first_quad + quad) * kWarpgroup] = {sum[0], sum[1], sum[2], sum[3]};
    }
  };
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
#pragma unroll
    for (int j = 0; j < 8; ++j) store(p * 8 + j, sums[p] + 4 * j);
  }
  if constexpr (kTail) {
    store(kPanels * 8, tail);
    store(kPanels * 8 + 1, tail + 4);
  }
  if constexpr (kBiasSteps > 0) {
    // [part, block, out]
    if (thread % 4 != 0 || work.column >= kMostBiasBlocks * kLinearTile) return;
    constexpr int kBlocks = kTileSteps / kBiasSteps;
    float* to = args.scratch + static_cast<long long>(work.num_parts) * args.sizes.in * out +
                static_cast<long long>(work.part * kBlocks + bias_block) * out;
    const int row = first_panel * kPanelWidth + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int p = 0; p < kPanels; ++p) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int at = row + p * kPanelWidth + 8 * h;
        if (at < out) to[at] = bias[p][2 * h];
      }
    }
  }
}

// The part of the warpgroup that forms the gradient of x. It replaces the tile of x.
template <int kPanels, bool kTail>
__device__ void FormInputGradient(LinearMemory<kPanels, kTail>& memory, const LinearWork& work) {
  using Memory = LinearMemory<kPanels, kTail>;
  constexpr int kSteps = kWeightGroups * kPanels * kTileSteps;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  float sums[32];
  const std::uint64_t weight = ColumnOperand(SharedAddress(memory.weight), kLinearPanelBytes);
  WaitForPhase(&memory.has_weight, 0);
  for (int i = 0; i < work.count(); ++i) {
    const int s = i % Memory::kStages;
    const int parity = i / Memory::kStages & 1;
    typename Memory::Stage& stage = memory.stages[s];
    WaitForPhase(&memory.full[s], parity);
    const std::uint64_t d_y = RowOperand(SharedAddress(stage.d_y));
    Pin(sums);
    warpgroup::Fence();
    MultiplyTiles<false>(sums, d_y, weight);
#pragma unroll
    for (int k = 1; k < kSteps; ++k) {
      MultiplyTiles<true>(sums, d_y + RowOperandStep(k, kLinearPanelBytes),
                          weight + ColumnOperandStep(k));
    }
    if constexpr (kTail) {
      MultiplyTiles<true>(sums, NarrowOperand(SharedAddress(stage.tail())),
                          weight + ColumnOperandStep(kSteps));
    }
    warpgroup::Commit();
    warpgroup::Wait<0>();
    Pin(sums);
    WaitForPhase(&memory.x_read[s], parity);
    StorePanel(stage.x, thread / 32 * 16, sums);
    warpgroup::PublishToProducts();
    Arrive(&memory.d_x_formed[s]);
  }
}

// The part of the one thread that stores the gradient of x.
template <int kPanels, bool kTail>
__device__ void StoreInputGradient(LinearMemory<kPanels, kTail>& memory, const LinearWork& work,
                                   const CUtensorMap& d_x) {
  using Memory = LinearMemory<kPanels, kTail>;
  for (int i = 0; i < work.count(); ++i) {
    const int s = i % Memory::kStages;
    WaitForPhase(&memory.d_x_formed[s], i / Memory::kStages & 1);
    StorePanelToMatrix(d_x, work.row(i), work.column, memory.stages[s].x);
    device::WaitForWrites<0>();
    Arrive(&memory.empty[s]);
  }
}

}  // namespace mixerbench::kernels
