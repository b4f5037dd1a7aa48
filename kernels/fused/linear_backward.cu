// Gradients of a linear layer in one pass over the gradient of its result.
//
// A block has 64 columns of x (and of the weight, which it keeps in shared memory) and every n-th
// tile of 64 rows. Per tile it forms d_x = d_y W, and adds x^T d_y to sums in registers. Blocks of
// other columns and the same rows run beside it, in clusters of two, so that d_y comes out of
// memory once. A second kernel adds the sums of the blocks. Products of bf16, sums fp32, in an
// order that depends on the sizes alone.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/fused/hopper_launch.cuh"
#include "kernels/fused/linear_backward.cuh"
#include "kernels/fused/linear_backward_device.h"

namespace mixerbench::kernels::fused {
namespace {

// Registers of a thread; 512 for the four warpgroups together.
constexpr int kWeightRegisters = 184;
constexpr int kInputRegisters = 104;
constexpr int kCopyRegisters = 40;
static_assert(kWeightGroups * kWeightRegisters + kInputRegisters + kCopyRegisters <= 512);

template <int kPanels, bool kTail, int kBiasSteps>
__global__ void __launch_bounds__(kLinearThreads, 1)
    LinearBackwardKernel(const __grid_constant__ LinearBackwardArgs args,
                         const __grid_constant__ LinearMaps maps) {
  if (!kForHopper) return;
  extern __shared__ __align__(1024) std::uint8_t shared[];
  auto& memory = *reinterpret_cast<LinearMemory<kPanels, kTail>*>(shared);
  const LinearWork work(args.sizes);
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  if (threadIdx.x < kUniformElements) memory.ones[threadIdx.x] = __float2bfloat16(1);
  if (threadIdx.x == kLinearProductThreads) InitLinear(memory);
  ShowToCopies();
  __syncthreads();
  if (group == kWeightGroups + 1) {
    GiveRegisters<kCopyRegisters>();
    if (threadIdx.x == kLinearProductThreads) CopyLinearTiles(memory, maps, work);
    if (threadIdx.x == kLinearProductThreads + 32) StoreInputGradient(memory, work, maps.d_x);
  } else if (group == kWeightGroups) {
    GiveRegisters<kInputRegisters>();
    FormInputGradient(memory, work);
  } else if (group == 0) {
    TakeRegisters<kWeightRegisters>();
    SumWeightGradient<kPanels, false, kBiasSteps>(memory, work, 0, args);
  } else {
    TakeRegisters<kWeightRegisters>();
    SumWeightGradient<kPanels, kTail, kBiasSteps>(memory, work, kPanels, args);
  }
}

constexpr int kSumLanes = 32;
constexpr int kSumStrands = 8;

// Adds the parts of the weight's gradient, 32 float4 a block, and, in the blocks after those, of
// the bias's. A strand adds every eighth part; strands are added in order. fp32, deterministic.
__global__ void __launch_bounds__(kSumLanes* kSumStrands)
    SumLinearPartsKernel(const LinearBackwardArgs args, int num_parts, int weight_blocks) {
  __shared__ float4 strands[kSumStrands][kSumLanes];
  const int lane = static_cast<int>(threadIdx.x);
  const int strand = static_cast<int>(threadIdx.y);
  const int block = static_cast<int>(blockIdx.x);
  const int in = args.sizes.in;
  const int out = args.sizes.out;
  const bool is_weight = block < weight_blocks;
  const int index = (is_weight ? block : block - weight_blocks) * kSumLanes + lane;
  const int size = is_weight ? in * out / 4 : out / 4;  // float4 of a part
  const auto* parts = reinterpret_cast<const float4*>(args.scratch) +
                      (is_weight ? 0 : static_cast<long long>(num_parts) * in * out / 4);
  if (!is_weight) num_parts *= LinearBiasBlocks(in);
  const auto add = [](float4& sum, const float4& x) {
    sum.x += x.x;
    sum.y += x.y;
    sum.z += x.z;
    sum.w += x.w;
  };
  float4 sum = {0, 0, 0, 0};
  if (index < size) {
#pragma unroll 5
    for (int part = strand; part < num_parts; part += kSumStrands) {
      add(sum, parts[static_cast<long long>(part) * size + index]);
    }
  }
  strands[strand][lane] = sum;
  __syncthreads();
  if (strand != 0 || index >= size) return;
  for (int other = 1; other < kSumStrands; ++other) add(sum, strands[other][lane]);
  if (!is_weight) {
    float* to = args.d_bias + 4 * index;
    to[0] = sum.x;
    to[1] = sum.y;
    to[2] = sum.z;
    to[3] = sum.w;
    return;
  }
  // Accumulators of a 64 x 8 product (hopper.cuh): rows are columns of x, columns those of d_y.
  const int thread = index % kWarpgroup;
  const int quad = index / kWarpgroup;
  const int column = quad / (out / 8) * kLinearTile + thread / 32 * kProductDepth + thread % 32 / 4;
  const int row = quad % (out / 8) * 8 + thread % 4 * 2;
  float* to = args.d_weight + row * in + column;
  to[0] = sum.x;
  to[in] = sum.y;
  to[8] = sum.z;
  to[in + 8] = sum.w;
}

cudaError_t MapOperands(const LinearBackwardArgs& args, LinearMaps* maps) {
  const LinearBackwardSizes& sizes = args.sizes;
  const TiledMatrix d_y = {args.d_y.data, sizes.num_rows, args.d_y.stride, sizes.out};
  const TiledMatrix x = {args.x.data, sizes.num_rows, args.x.stride, sizes.in};
  const TiledMatrix weight = {args.weight.data, sizes.out, args.weight.stride, sizes.in};
  const TiledMatrix d_x = {args.d_x.data, sizes.num_rows, args.d_x.stride, sizes.in};
  constexpr CopyBox kPanel = {kLinearTile, kPanelWidth};
  cudaError_t status = MapMatrix(d_y, kPanel, &maps->d_y);
  if (status == cudaSuccess) status = MapMatrix(d_y, {kLinearTile, kNarrowWidth}, &maps->d_y_tail);
  if (status == cudaSuccess) status = MapMatrix(x, kPanel, &maps->x);
  if (status == cudaSuccess) {
    status = MapMatrix(weight, {kProductDepth, kPanelWidth}, &maps->weight);
  }
  if (status == cudaSuccess) status = MapMatrix(d_x, kPanel, &maps->d_x);
  return status;
}

template <int kPanels, bool kTail, int kBiasSteps>
cudaError_t LaunchColumns(const LinearBackwardArgs& args, CUstream_st* stream) {
  LinearMaps maps;
  const cudaError_t status = MapOperands(args, &maps);
  if (status != cudaSuccess) return status;
  // Blocks that read the same d_y begin together and near each other (4 of 35 us).
  const int cluster_size = LinearBiasBlocks(args.sizes.in);
  const int num_clusters =
      LinearBackwardParts(args.sizes) * args.sizes.in / (kLinearTile * cluster_size);
  return LaunchClusters(LinearBackwardKernel<kPanels, kTail, kBiasSteps>, num_clusters,
                        static_cast<unsigned>(cluster_size), kLinearThreads,
                        sizeof(LinearMemory<kPanels, kTail>), stream, args, maps);
}

template <int kPanels>
cudaError_t LaunchPanels(const LinearBackwardArgs& args, CUstream_st* stream) {
  if constexpr (kPanels <= kMaxBiasPanels) {
    if (args.sizes.has_bias) {
      return LinearBiasBlocks(args.sizes.in) == 2
                 ? LaunchColumns<kPanels, false, kTileSteps / 2>(args, stream)
                 : LaunchColumns<kPanels, false, kTileSteps>(args, stream);
    }
  }
  return CutLinearColumns(args.sizes).has_tail ? LaunchColumns<kPanels, true, 0>(args, stream)
                                               : LaunchColumns<kPanels, false, 0>(args, stream);
}

cudaError_t LaunchProducts(const LinearBackwardArgs& args, CUstream_st* stream) {
  switch (CutLinearColumns(args.sizes).panels) {
    case 1:
      return LaunchPanels<1>(args, stream);
    case 2:
      return LaunchPanels<2>(args, stream);
    case 3:
      return LaunchPanels<3>(args, stream);
    case 4:
      return LaunchPanels<4>(args, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

bool DeviceHasLinearBackward(int device) { return IsHopper(device); }

int LaunchLinearBackward(const LinearBackwardArgs& args, CUstream_st* stream) {
  const cudaError_t status = LaunchProducts(args, stream);
  if (status != cudaSuccess) return status;
  const auto blocks_of = [](int floats) { return (floats / 4 + kSumLanes - 1) / kSumLanes; };
  const int weight_blocks = blocks_of(args.sizes.in * args.sizes.out);
  const int bias_blocks = args.sizes.has_bias ? blocks_of(args.sizes.out) : 0;
  SumLinearPartsKernel<<<static_cast<unsigned>(weight_blocks + bias_blocks),
                         dim3(kSumLanes, kSumStrands), 0, stream>>>(
      args, LinearBackwardParts(args.sizes), weight_blocks);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels::fused
