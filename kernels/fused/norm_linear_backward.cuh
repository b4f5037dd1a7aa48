// What a block of norm_linear_backward.cu keeps in shared memory, and the work of its warpgroups.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/fused/hopper.cuh"
#include "kernels/fused/linear_stages.cuh"
#include "kernels/fused/norm_linear.cuh"
#include "kernels/fused/norm_linear_device.h"

namespace mixerbench::kernels::fused::norm_linear {

constexpr int kColumns = kNormLinearColumns;
constexpr int kPanels = kColumns / kPanelWidth;
static_assert(kWeightGroups == kPanels);  // a panel of x for each
constexpr int kProductThreads = (kWeightGroups + 1) * kWarpgroup;
constexpr int kAllThreads = kProductThreads + kWarpgroup;  // and one copies
constexpr int kTileSteps = kTile / kProductDepth;

template <int kHead, int kOut>
struct BackwardMemory {
  static constexpr int kHeads = kColumns / kHead;
  static constexpr int kWeightPanelBytes = kOut * kTileRowBytes;

  // 64 rows of the block's columns of x, and of the gradient of the result.
  struct Stage {
    std::uint8_t x[kPanels][kPanelBytes];  // later the gradient of x
    std::uint8_t d_y[kOut / kPanelWidth][kPanelBytes];
  };

  static constexpr int kStages = 4;  // of the five or six that fit; more are slower
  static_assert(sizeof(Stage) % 1024 == 0);

  // Panels first: they start at multiples of 1024 bytes.
  std::uint8_t weight[kPanels][kWeightPanelBytes];
  Stage stages[kStages];
  float scales[kHeads][kTile];  // of the rows of one tile after the other
  float norm[kHead];            // the norm's weight
  std::uint64_t has_weight;
  std::uint64_t has_scales;
  std::uint64_t full[kStages];
  std::uint64_t x_read[kStages];  // and the scales, by the warpgroups of the weight
  std::uint64_t d_x_formed[kStages];
  std::uint64_t empty[kStages];
};

struct BackwardMaps {
  CUtensorMap d_y;
  CUtensorMap x;
  CUtensorMap weight;
  CUtensorMap d_x;
};

// What a block does: 128 columns of x, every num_parts-th tile of rows. The last rows come first:
// they were written last, and are the most likely to be cached.
struct BackwardWork {
  int last;  // tile
  int num_parts;
  int column;  // first of the block

  __device__ explicit BackwardWork(const NormLinearSizes& sizes) {
    const int column_blocks = sizes.in / kColumns;
    const int block = static_cast<int>(blockIdx.x);
    const int tiles = static_cast<int>((sizes.num_rows + kTile - 1) / kTile);
    last = tiles - 1 - block / column_blocks;
    num_parts = static_cast<int>(gridDim.x) / column_blocks;
    column = block % column_blocks * kColumns;
  }

  __device__ int count() const { return last / num_parts + 1; }
  __device__ int row(int i) const { return (last - i * num_parts) * kTile; }
};

// The part of the one thread that copies. The weight is needed last.
template <typename Memory>
__device__ void CopyBackwardTiles(Memory& memory, const BackwardMaps& maps,
                                  const BackwardWork& work) {
  for (int i = 0; i < work.count(); ++i) {
    const int s = i % Memory::kStages;
    if (i >= Memory::kStages) WaitForPhase(&memory.empty[s], i / Memory::kStages - 1 & 1);
    typename Memory::Stage& stage = memory.stages[s];
    const int row = work.row(i);
    cuda::ArriveAndExpectBytes(&memory.full[s], sizeof(stage));
    for (int panel = 0; panel < kPanels; ++panel) {
      CopyPanel(stage.x[panel], maps.x, row, work.column + panel * kPanelWidth, &memory.full[s]);
    }
    for (std::size_t panel = 0; panel < sizeof(stage.d_y) / kPanelBytes; ++panel) {
      CopyPanel(stage.d_y[panel], maps.d_y, row, static_cast<int>(panel) * kPanelWidth,
                &memory.full[s]);
    }
    if (i > 0) continue;
    cuda::ArriveAndExpectBytes(&memory.has_weight, sizeof(memory.weight));
    for (int panel = 0; panel < kPanels; ++panel) {
      CopyPanel(memory.weight[panel], maps.weight, 0, work.column + panel * kPanelWidth,
                &memory.has_weight);
    }
  }
}

// The part of a warpgroup that sums d_y times 64 columns of x / rms(x), in bf16: these sums times
// the norm's weight are the gradient of the weight, and times the weight that of the norm's.
template <int kHead, int kOut>
__device__ void SumWeightGradients(BackwardMemory<kHead, kOut>& memory, const BackwardWork& work,
                                   const NormLinearBackwardArgs& args) {
  using Memory = BackwardMemory<kHead, kOut>;
  const int panel = static_cast<int>(threadIdx.x) / kWarpgroup;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  const int lane = thread % 32;
  const int first_column = thread / 32 * kProductDepth;  // of the warp, in the panel
  const float* scales = memory.scales[panel * kPanelWidth / kHead] + lane % 4 * 2;
  float sums[kOut / 2] = {};
  for (int i = 0; i < work.count(); ++i) {
    const int s = i % Memory::kStages;
    typename Memory::Stage& stage = memory.stages[s];
    WaitForPhase(&memory.full[s], i / Memory::kStages & 1);
    std::uint32_t x[kTileSteps][4];
#pragma unroll
    for (int k = 0; k < kTileSteps; ++k) LoadTransposed(x[k], stage.x[panel], k, first_column);
    WaitForPhase(&memory.has_scales, i & 1);
    float2 scale[kTileSteps][2];
#pragma unroll
    for (int k = 0; k < kTileSteps; ++k) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        scale[k][h] = *reinterpret_cast<const float2*>(scales + k * kProductDepth + 8 * h);
      }
    }
#pragma unroll
    for (int k = 0; k < kTileSteps; ++k) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 value = Unpack(x[k][j]);
        x[k][j] = cuda::PackBf16(scale[k][j / 2].x * value.x, scale[k][j / 2].y * value.y);
      }
    }
    const std::uint64_t d_y = ColumnOperand(SharedAddress(stage.d_y), kPanelBytes);
    Pin(sums);
    warpgroup::Fence();
#pragma unroll
    for (int k = 0; k < kTileSteps; ++k) MultiplyColumns(sums, x[k], d_y + ColumnOperandStep(k));
    warpgroup::Commit();
    // Only now: an arrival does not wait for what ldmatrix reads, products of it do.
    Arrive(&memory.x_read[s]);
    warpgroup::Wait<0>();
#pragma unroll
    for (int k = 0; k < kTileSteps; ++k) Pin(x[k]);
    Pin(sums);
    Arrive(&memory.empty[s]);
  }
  // As LinearParts describes them: [part, panel of columns, quad, thread, 4], and then
  // [part, head, column].
  const long long index = static_cast<long long>(blockIdx.x) * kPanels + panel;
  auto* quads = reinterpret_cast<float4*>(args.scratch) + index * (kOut / 8 * kWarpgroup) + thread;
  const int column = first_column + lane / 4;  // and that + 8
  const float* norm = memory.norm + panel * kPanelWidth % kHead + column;
  RowPair d_norm = {};
#pragma unroll
  for (int k = 0; k < kOut / kProductDepth; ++k) {
    std::uint32_t weight[4];
    LoadTransposed(weight, memory.weight[panel], k, first_column);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float* sum = sums + 8 * k + 4 * j;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float2 w = Unpack(weight[2 * j + h]);
        d_norm.row[h] += w.x * sum[2 * h] + w.y * sum[2 * h + 1];
      }
      quads[(2 * k + j) * kWarpgroup] = {norm[0] * sum[0], norm[0] * sum[1], norm[8] * sum[2],
                                         norm[8] * sum[3]};
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = SumQuad(d_norm.row[h]);
    if (lane % 4 != 0) continue;
    args.scratch[static_cast<long long>(work.num_parts) * args.sizes.in * kOut +
                 index * kPanelWidth + column + 8 * h] = sum;
  }
}

// The part of the warpgroup that forms the gradient of x, which replaces the tile of x. While the
// tensor cores form that of the normed values, it finds the rows' scales.
template <int kHead, int kOut>
__device__ void FormInputGradient(BackwardMemory<kHead, kOut>& memory, const BackwardWork& work,
                                  float eps) {
  using Memory = BackwardMemory<kHead, kOut>;
  constexpr int kHeads = Memory::kHeads;
  constexpr int kEights = kHead / 8;  // columns of a head
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = static_cast<int>(threadIdx.x) % kWarpgroup / 32 * 16;  // of the warp
  const auto* norm = reinterpret_cast<const float2*>(memory.norm + lane % 4 * 2);
  const std::uint64_t weight =
      ColumnOperand(SharedAddress(memory.weight), Memory::kWeightPanelBytes);
  float g[kColumns / 2];
  WaitForPhase(&memory.has_weight, 0);
  for (int i = 0; i < work.count(); ++i) {
    const int s = i % Memory::kStages;
    const int parity = i / Memory::kStages & 1;
    typename Memory::Stage& stage = memory.stages[s];
    WaitForPhase(&memory.full[s], parity);
    BeginSums<kOut / kProductDepth>(g, RowOperand(SharedAddress(stage.d_y)), kPanelBytes, weight);
    warpgroup::Commit();
    std::uint32_t x[kColumns / kProductDepth][4];
#pragma unroll
    for (int k = 0; k < kColumns / kProductDepth; ++k) {
      LoadFragment(x[k], stage.x, first_row, k, kPanelBytes);
    }
    RowPair scale[kHeads];
#pragma unroll
    for (int head = 0; head < kHeads; ++head) {
      scale[head] = InverseRms<kHead>(x + head * (kHead / kProductDepth), eps);
      float* scales = memory.scales[head] + first_row + lane / 4;
      if (lane % 4 == 0) {
        scales[0] = scale[head].row[0];
        scales[8] = scale[head].row[1];
      }
    }
    Arrive(&memory.has_scales);
    warpgroup::Wait<0>();
    Pin(g);
#pragma unroll
    for (int head = 0; head < kHeads; ++head) {
      // f(eight columns of the head, row of the pair, two values of x, their two gradients)
      const auto for_each = [&](auto f) {
#pragma unroll
        for (int j = 0; j < kEights; ++j) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int eight = head * kEights + j;
            f(j, h, Unpack(x[eight / 2][eight % 2 * 2 + h]), g + 4 * eight + 2 * h);
          }
        }
      };
      RowPair product = {};  // of a row of x and of its gradient, times the norm's weight
      for_each([&](int j, int h, float2 value, float* two) {
        const float2 w = norm[4 * j];
        two[0] *= w.x;
        two[1] *= w.y;
        product.row[h] += two[0] * value.x + two[1] * value.y;
      });
      RowPair along;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float by = scale[head].row[h];
        along.row[h] = SumQuad(product.row[h]) * (1.0f / kHead) * by * by;
      }
      for_each([&](int, int h, float2 value, float* two) {
        two[0] = scale[head].row[h] * (two[0] - along.row[h] * value.x);
        two[1] = scale[head].row[h] * (two[1] - along.row[h] * value.y);
      });
    }
    WaitForPhase(&memory.x_read[s], parity);
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      float d_x[kPanelWidth / 2];
#pragma unroll
      for (int j = 0; j < kPanelWidth / 2; ++j) d_x[j] = g[panel * (kPanelWidth / 2) + j];
      StorePanel(stage.x[panel], first_row, d_x);
    }
    warpgroup::PublishToProducts();
    Arrive(&memory.d_x_formed[s]);
  }
}

}  // namespace mixerbench::kernels::fused::norm_linear
