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

#include "kernels/device/hopper_launch.cuh"
#include "kernels/linear/linear_backward.cuh"
#include "kernels/linear/linear_backward_cuda.h"
#include "kernels/linear/linear_parts.cuh"

namespace mixerbench::kernels {
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
  if (threadIdx.x == kLinearProductThreads) {
    InitBarriers(memory);
  }
  warpgroup::PublishToProducts();
  __syncthreads();
  if (group == kWeightGroups + 1) {
    warpgroup::GiveRegisters<kCopyRegisters>();
    if (threadIdx.x == kLinearProductThreads) CopyLinearTiles(memory, maps, work);
    if (threadIdx.x == kLinearProductThreads + 32) StoreInputGradient(memory, work, maps.d_x);
  } else if (group == kWeightGroups) {
    warpgroup::GiveRegisters<kInputRegisters>();
    FormInputGradient(memory, work);
  } else if (group == 0) {
    warpgroup::TakeRegisters<kWeightRegisters>();
    SumWeightGradient<kPanels, false, kBiasSteps>(memory, work, 0, args);
  } else {
    warpgroup::TakeRegisters<kWeightRegisters>();
    SumWeightGradient<kPanels, kTail, kBiasSteps>(memory, work, kPanels, args);
  }
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

int LaunchLinearBackward(const LinearBackwardArgs& args, CUstream_st* stream) {
  const cudaError_t status = LaunchProducts(args, stream);
  if (status != cudaSuccess) return status;
  const LinearBackwardSizes& sizes = args.sizes;
  const int parts = LinearBackwardParts(sizes);
  return LaunchSumLinearParts({.parts = args.scratch,
                               .num_parts = parts,
                               .in = sizes.in,
                               .out = sizes.out,
                               .num_bias_parts = parts * LinearBiasBlocks(sizes.in),
                               .has_bias = sizes.has_bias,
                               .weight = args.d_weight,
                               .bias = args.d_bias},
                              stream);
}

}  // namespace mixerbench::kernels
