// The norm of heads followed by a linear layer: the weight stays in shared memory, tiles of x
// stream through it, their normed values exist in registers alone.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/fused/hopper.cuh"
#include "kernels/fused/hopper_launch.cuh"
#include "kernels/fused/norm_linear.cuh"
#include "kernels/fused/norm_linear_device.h"

namespace mixerbench::kernels::fused {
namespace {

using namespace norm_linear;

constexpr int kGroups = 2;  // warpgroups that multiply
constexpr int kProductThreads = kGroups * kWarpgroup;
constexpr int kCopyThreads = 32;
constexpr int kAllThreads = kProductThreads + kCopyThreads;
constexpr int kStoredRows = 16;  // of a warp

struct ForwardMaps {
  CUtensorMap x;
  CUtensorMap weight;
  CUtensorMap y;
};

template <int kHead, int kIn, int kOut>
struct ForwardMemory {
  static constexpr int kPanels = kIn / kPanelWidth;
  static constexpr int kWeightPanelBytes = kOut * kTileRowBytes;
  static constexpr int kTileBytes = kPanels * kPanelBytes;
  static constexpr int kResultBytes = kOut / kPanelWidth * kPanelBytes;
  // 64 KB, half of what fits: more is no faster. Divided among the warpgroups: one that saw only
  // some phases of a stage's barrier could take one for the next but one.
  static constexpr int kStages = 64 * 1024 / kTileBytes;
  static_assert(kStages >= kGroups && kStages % kGroups == 0);

  // Panels first: they start at multiples of 1024 bytes.
  std::uint8_t weight[kPanels][kWeightPanelBytes];
  std::uint8_t stages[kStages][kTileBytes];
  std::uint8_t results[kGroups][kResultBytes];
  float norm[kHead];
  std::uint64_t has_weight;
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

// Tiles of rows of a block: every gridDim.x-th. The last rows come first: they were written last,
// and are the most likely to be cached.
struct ForwardWork {
  int last;
  int count;

  __device__ explicit ForwardWork(long long num_rows) {
    const int tiles = static_cast<int>((num_rows + kTile - 1) / kTile);
    const int blocks = static_cast<int>(gridDim.x);
    last = tiles - 1 - static_cast<int>(blockIdx.x);
    count = last / blocks + 1;
  }
  __device__ int row(int i) const { return (last - i * static_cast<int>(gridDim.x)) * kTile; }
};

// The part of the one thread that copies. The first tiles of x go before the weight.
template <typename Memory>
__device__ void CopyTiles(Memory& memory, const ForwardWork& work, const ForwardMaps& maps) {
  const int num_first = min(work.count, kGroups);
  for (int i = 0; i < work.count; ++i) {
    const int s = i % Memory::kStages;
    if (i >= Memory::kStages) WaitForPhase(&memory.empty[s], i / Memory::kStages - 1 & 1);
    cuda::ArriveAndExpectBytes(&memory.full[s], Memory::kTileBytes);
#pragma unroll
    for (int panel = 0; panel < Memory::kPanels; ++panel) {
      CopyPanel(memory.stages[s] + panel * kPanelBytes, maps.x, work.row(i), panel * kPanelWidth,
                &memory.full[s]);
    }
    if (i != num_first - 1) continue;
    cuda::ArriveAndExpectBytes(&memory.has_weight, sizeof(memory.weight));
#pragma unroll
    for (int panel = 0; panel < Memory::kPanels; ++panel) {
      CopyPanel(memory.weight[panel], maps.weight, 0, panel * kPanelWidth, &memory.has_weight);
    }
  }
}

// A head's fragments become weight (scale x), in bf16.
template <int kHead>
__device__ void Norm(std::uint32_t (*x)[4], const float* weight, float eps) {
  const RowPair scale = InverseRms<kHead>(x, eps);
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < kHead / kProductDepth; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = k * kProductDepth + i / 2 * 8 + lane % 4 * 2;
      const float2 w = *reinterpret_cast<const float2*>(weight + column);
      const float2 value = Unpack(x[k][i]);
      const float s = scale.row[i % 2];
      x[k][i] = cuda::PackBf16(w.x * (s * value.x), w.y * (s * value.y));
    }
  }
}

// The part of a warpgroup: every kGroups-th tile of the block.
template <int kHead, int kIn, int kOut>
__device__ void FormTiles(ForwardMemory<kHead, kIn, kOut>& memory, const ForwardWork& work,
                          const ForwardMaps& maps, float eps) {
  using Memory = ForwardMemory<kHead, kIn, kOut>;
  constexpr int kSteps = kIn / kProductDepth;
  constexpr int kHeadSteps = kHead / kProductDepth;
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  const int first_row = static_cast<int>(threadIdx.x) % kWarpgroup / 32 * kStoredRows;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::uint8_t* result = memory.results[group];
  const std::uint64_t weight = RowOperand(SharedAddress(memory.weight));
  for (int i = group; i < work.count; i += kGroups) {
    const int s = i % Memory::kStages;
    WaitForPhase(&memory.full[s], i / Memory::kStages & 1);
    std::uint32_t x[kSteps][4];
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      LoadFragment(x[k], memory.stages[s], first_row, k, kPanelBytes);
    }
#pragma unroll
    for (int k = 0; k < kSteps; k += kHeadSteps) Norm<kHead>(x + k, memory.norm, eps);
    if (i == group) WaitForPhase(&memory.has_weight, 0);
    float sums[kOut / 2] = {};
    Pin(sums);
    warpgroup::Fence();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      MultiplyRows(sums, x[k], weight + RowOperandStep(k, Memory::kWeightPanelBytes));
    }
    warpgroup::Commit();
    // Only now: an arrival does not wait for what ldmatrix reads, products of it do.
    Arrive(&memory.empty[s]);
    warpgroup::Wait<0>();
    Pin(sums);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) Pin(x[k]);
    if (lane == 0) cuda::WaitForWrites<0>();
    __syncwarp();
#pragma unroll
    for (int panel = 0; panel < kOut / kPanelWidth; ++panel) {
      float part[32];
#pragma unroll
      for (int j = 0; j < 32; ++j) part[j] = sums[panel * 32 + j];
      StorePanel(result + panel * kPanelBytes, first_row, part);
    }
    warpgroup::PublishToProducts();
    __syncwarp();
    if (lane == 0) {
#pragma unroll
      for (int panel = 0; panel < kOut / kPanelWidth; ++panel) {
        StorePanelToMatrix(maps.y, work.row(i) + first_row, panel * kPanelWidth,
                           result + panel * kPanelBytes + first_row * kTileRowBytes);
      }
    }
  }
  if (lane == 0) cuda::WaitForWrites<0>();
}

// A block owns every gridDim.x-th tile of 64 rows, a warpgroup every second of those; a warp norms
// and stores the 16 rows that it holds. One more warp copies. The norm is fp32, its result bf16,
// sums of products fp32; none is shared: deterministic.
template <int kHead, int kIn, int kOut>
__global__ void __launch_bounds__(kAllThreads, 1)
    NormLinearForwardKernel(const __grid_constant__ NormLinearForwardArgs args,
                            const __grid_constant__ ForwardMaps maps) {
  if (!kForHopper) return;
  using Memory = ForwardMemory<kHead, kIn, kOut>;
  extern __shared__ __align__(1024) std::uint8_t shared[];
  static_assert(sizeof(Memory) <= kMostBytes);
  auto& memory = *reinterpret_cast<Memory*>(shared);
  const ForwardWork work(args.sizes.num_rows);
  if (threadIdx.x == kProductThreads) {
    InitBarrier(&memory.has_weight, 1);
    for (int stage = 0; stage < Memory::kStages; ++stage) {
      InitBarrier(&memory.full[stage], 1);
      InitBarrier(&memory.empty[stage], kWarpgroup);
    }
    cuda::ShowBarriersToCopies();
  }
  __syncthreads();
  if (threadIdx.x < kProductThreads) {
    LoadNorm<kHead, kProductThreads>(memory.norm, args.norm_weight);
    FormTiles<kHead, kIn, kOut>(memory, work, maps, args.sizes.eps);
  } else if (threadIdx.x == kProductThreads) {
    CopyTiles(memory, work, maps);
  }
}

template <int kHead, int kIn, int kOut>
cudaError_t Launch(const NormLinearForwardArgs& args, CUstream_st* stream) {
  const NormLinearSizes& sizes = args.sizes;
  const TiledMatrix x = {args.x.data, sizes.num_rows, args.x.stride, kIn};
  const TiledMatrix weight = {args.weight.data, kOut, args.weight.stride, kIn};
  const TiledMatrix y = {args.y.data, sizes.num_rows, args.y.stride, kOut};
  ForwardMaps maps;
  cudaError_t status = MapMatrix(x, {kTile, kPanelWidth}, &maps.x);
  if (status == cudaSuccess) status = MapMatrix(weight, {kOut, kPanelWidth}, &maps.weight);
  if (status == cudaSuccess) status = MapMatrix(y, {kStoredRows, kPanelWidth}, &maps.y);
  if (status != cudaSuccess) return status;
  const long long tiles = (sizes.num_rows + kTile - 1) / kTile;
  const int blocks = static_cast<int>(std::min<long long>(tiles, kNormLinearBlocks));
  return LaunchClusters(NormLinearForwardKernel<kHead, kIn, kOut>, blocks, /*cluster_size=*/1,
                        kAllThreads, sizeof(ForwardMemory<kHead, kIn, kOut>), stream, args, maps);
}

template <int kHead, int kIn>
cudaError_t LaunchOut(const NormLinearForwardArgs& args, CUstream_st* stream) {
  return args.sizes.out == 64 ? Launch<kHead, kIn, 64>(args, stream)
                              : Launch<kHead, kIn, 128>(args, stream);
}

template <int kHead>
cudaError_t LaunchIn(const NormLinearForwardArgs& args, CUstream_st* stream) {
  return args.sizes.in == 128 ? LaunchOut<kHead, 128>(args, stream)
                              : LaunchOut<kHead, 256>(args, stream);
}

}  // namespace

int LaunchNormLinearForward(const NormLinearForwardArgs& args, CUstream_st* stream) {
  return args.sizes.head_dim == 64 ? LaunchIn<64>(args, stream) : LaunchIn<128>(args, stream);
}

}  // namespace mixerbench::kernels::fused
