// The product of a linear layer with many rows: the weight stays in shared memory, tiles of x
// stream through it, results leave by copies that overlap the products of the next ones.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/device/hopper_launch.cuh"
#include "kernels/device/ring_cursor.cuh"
#include "kernels/linear/linear_forward_cuda.h"

namespace mixerbench::kernels {
namespace {

constexpr int kTile = kLinearForwardTile;
constexpr int kPanelBytes = kTile * kTileRowBytes;
constexpr int kCopyThreads = 32;
constexpr int kResults = kLinearForwardResults;
static_assert(kTile == kPanelWidth);

// Of 64 rows of x or of the weight.
template <int kIn>
constexpr int kTileBytes = kIn / kPanelWidth* kPanelBytes;

template <int kIn>
__device__ void CopyTile(std::uint8_t* to, const CUtensorMap& matrix, int row,
                         std::uint64_t* barrier) {
  device::ArriveAndExpectBytes(barrier, kTileBytes<kIn>);
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
  __device__ void PinAll() {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) Pin(x[k]);
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

struct LinearForwardMaps {
  CUtensorMap x;
  CUtensorMap weight;
  CUtensorMap y;
};

// What a block keeps in shared memory, as CutLinearForward counts it.
template <int kIn>
struct Memory {
  std::uint8_t* weight;       // [num_panels] tiles
  std::uint8_t* stages;       // [num_stages] tiles of x
  std::uint8_t* results;      // [num_groups, kResults] panels
  float* bias;                // [num_panels, kTile], zeros without one
  std::uint64_t* has_weight;  // [num_panels]
  std::uint64_t* full;        // [num_stages]
  std::uint64_t* empty;

  __device__ Memory(std::uint8_t* shared, const LinearForwardCut& cut)
      : weight(shared),
        stages(weight + cut.num_panels * kTileBytes<kIn>),
        results(stages + cut.num_stages * kTileBytes<kIn>),
        bias(reinterpret_cast<float*>(results + cut.num_groups * kResults * kPanelBytes)),
        has_weight(reinterpret_cast<std::uint64_t*>(bias + cut.num_panels * kTile)),
        full(has_weight + cut.num_panels),
        empty(full + cut.num_stages) {}
};

// Tiles of rows of a block: every gridDim.x-th.
struct Work {
  int count;

  __device__ explicit Work(long long num_rows) {
    const int tiles = static_cast<int>((num_rows + kTile - 1) / kTile);
    const int blocks = static_cast<int>(gridDim.x);
    count = (tiles - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
  }
  __device__ int row(int i) const {
    return (static_cast<int>(blockIdx.x) + i * static_cast<int>(gridDim.x)) * kTile;
  }
};

// The part of the one thread that copies. The first tiles of x go before the weight.
template <int kIn>
__device__ void CopyTiles(const Memory<kIn>& memory, const LinearForwardCut& cut, const Work& work,
                          const LinearForwardMaps& maps) {
  device::RingCursor turn;
  const int num_first = min(work.count, cut.num_groups);
  for (int i = 0; i < work.count; ++i) {
    if (i >= cut.num_stages) WaitForPhase(&memory.empty[turn.slot], turn.parity ^ 1);
    CopyTile<kIn>(memory.stages + turn.slot * kTileBytes<kIn>, maps.x, work.row(i),
                  &memory.full[turn.slot]);
    turn.Advance(1, cut.num_stages);
    if (i != num_first - 1) continue;
    for (int panel = 0; panel < cut.num_panels; ++panel) {
      CopyTile<kIn>(memory.weight + panel * kTileBytes<kIn>, maps.weight, panel * kTile,
                    &memory.has_weight[panel]);
    }
  }
}

// The part of a warpgroup: every kGroups-th tile of the block.
template <int kIn, int kGroups>
__device__ void FormTiles(const Memory<kIn>& memory, const LinearForwardCut& cut, const Work& work,
                          const LinearForwardMaps& maps) {
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  const int first_row = static_cast<int>(threadIdx.x) % kWarpgroup / 32 * 16;  // of the warp
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::uint8_t* results = memory.results + group * kResults * kPanelBytes;
  device::RingCursor turn;
  turn.Advance(group, cut.num_stages);
  int buffer = 0;
  for (int i = group; i < work.count; i += kGroups) {
    WaitForPhase(&memory.full[turn.slot], turn.parity);
    RowFragments<kIn> rows(memory.stages + turn.slot * kTileBytes<kIn>, first_row);
    for (int panel = 0; panel < cut.num_panels; ++panel) {
      if (i == group) WaitForPhase(&memory.has_weight[panel], 0);
      float sums[32];
      FormPanel(sums, rows, memory.weight + panel * kTileBytes<kIn>, memory.bias + panel * kTile);
      // Only now: an arrival does not wait for what ldmatrix reads, products of it do.
      if (panel == 0) Arrive(&memory.empty[turn.slot]);
      std::uint8_t* result = results + buffer * kPanelBytes;
      if (++buffer == kResults) buffer = 0;
      if (lane == 0) device::WaitForWrites<kResults - 1>();
      __syncwarp();
      StorePanel(result, first_row, sums);
      warpgroup::PublishToProducts();
      __syncwarp();
      if (lane == 0) {
        StorePanelToMatrix(maps.y, work.row(i) + first_row, panel * kTile,
                           result + first_row * kTileRowBytes);
      }
    }
    rows.PinAll();
    turn.Advance(kGroups, cut.num_stages);
  }
  if (lane == 0) device::WaitForWrites<0>();
}

// A block owns every gridDim.x-th tile of 64 rows and all columns; a warpgroup every kGroups-th of
// those, whose rows its warps hold as fragments while they pass over the panels of the weight; a
// warp stores the 16 rows it has formed. One more warp copies. Shared memory as in Memory, panels
// at multiples of 1024 bytes. Sums begin with the bias, fp32; no sum is shared: deterministic.
template <int kIn, int kGroups>
__global__ void __launch_bounds__(kGroups* kWarpgroup + kCopyThreads, 1)
    LinearForwardKernel(const __grid_constant__ LinearForwardArgs args,
                        const __grid_constant__ LinearForwardCut cut,
                        const __grid_constant__ LinearForwardMaps maps) {
  if (!kForHopper) return;
  constexpr int kProductThreads = kGroups * kWarpgroup;
  constexpr int kThreads = kProductThreads + kCopyThreads;
  extern __shared__ __align__(1024) std::uint8_t shared[];
  const Memory<kIn> memory(shared, cut);
  const Work work(args.sizes.num_rows);
  if (threadIdx.x == kProductThreads) {
    for (int panel = 0; panel < cut.num_panels; ++panel) InitBarrier(&memory.has_weight[panel], 1);
    for (int stage = 0; stage < cut.num_stages; ++stage) {
      InitBarrier(&memory.full[stage], 1);
      InitBarrier(&memory.empty[stage], kWarpgroup);
    }
    device::ShowBarriersToCopies();
  }
  const auto* bias = static_cast<const __nv_bfloat16*>(args.bias);
  for (int i = static_cast<int>(threadIdx.x); i < cut.num_panels * kTile; i += kThreads) {
    memory.bias[i] = bias != nullptr && i < args.sizes.out ? __bfloat162float(bias[i]) : 0.0f;
  }
  __syncthreads();
  if (threadIdx.x < kProductThreads) {
    FormTiles<kIn, kGroups>(memory, cut, work, maps);
  } else if (threadIdx.x == kProductThreads) {
    CopyTiles(memory, cut, work, maps);
  }
}

template <int kIn, int kGroups>
cudaError_t LaunchGroups(const LinearForwardArgs& args, const LinearForwardCut& cut,
                         CUstream_st* stream) {
  const LinearForwardSizes& sizes = args.sizes;
  LinearForwardMaps maps;
  constexpr CopyBox kPanel = {kTile, kPanelWidth};
  constexpr CopyBox kRows = {16, kPanelWidth};
  const TiledMatrix x = {args.x.data, sizes.num_rows, args.x.stride, sizes.in};
  const TiledMatrix weight = {args.weight.data, sizes.out, args.weight.stride, sizes.in};
  const TiledMatrix y = {args.y.data, sizes.num_rows, args.y.stride, sizes.out};
  cudaError_t status = MapMatrix(x, kPanel, &maps.x);
  if (status == cudaSuccess) status = MapMatrix(weight, kPanel, &maps.weight);
  if (status == cudaSuccess) status = MapMatrix(y, kRows, &maps.y);
  if (status != cudaSuccess) return status;
  const long long tiles = (sizes.num_rows + kTile - 1) / kTile;
  const int blocks = static_cast<int>(std::min<long long>(tiles, kLinearForwardBlocks));
  return LaunchClusters(LinearForwardKernel<kIn, kGroups>, blocks, /*cluster_size=*/1,
                        kGroups * kWarpgroup + kCopyThreads, static_cast<std::size_t>(cut.bytes),
                        stream, args, cut, maps);
}

template <int kIn>
cudaError_t Launch(const LinearForwardArgs& args, CUstream_st* stream) {
  const LinearForwardCut cut = CutLinearForward(args.sizes);
  return cut.num_groups == 3 ? LaunchGroups<kIn, 3>(args, cut, stream)
                             : LaunchGroups<kIn, 2>(args, cut, stream);
}

}  // namespace

int LaunchLinearForward(const LinearForwardArgs& args, CUstream_st* stream) {
  switch (args.sizes.in) {
    case 64:
      return Launch<64>(args, stream);
    case 128:
      return Launch<128>(args, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace mixerbench::kernels
