// Gradients of the norm of heads followed by a linear layer, in one pass over the gradient of its
// result.
//
// A block has 128 columns of x (one head or two, and the weight's columns for them, which it keeps
// in shared memory) and every n-th tile of 64 rows. Per tile it forms the gradient of the normed
// values, d_y W, and from it that of x; it divides x by its root mean square again and adds the
// product with d_y to sums in registers. Blocks of other columns and the same rows run beside it,
// in clusters of two, so that d_y comes out of memory once. A second kernel adds the sums of the
// blocks. Products of bf16, all else fp32, in an order that depends on the sizes alone.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/fused/hopper_launch.cuh"
#include "kernels/fused/linear_parts.cuh"
#include "kernels/fused/norm_linear_backward.cuh"
#include "kernels/fused/norm_linear_device.h"

namespace mixerbench::kernels::fused {
namespace {

using namespace norm_linear;

// Registers of a thread; 512 for the four warpgroups together.
constexpr int kWeightRegisters = 128;  // as at the start
constexpr int kInputRegisters = 208;
constexpr int kCopyRegisters = 40;
static_assert(kWeightGroups * kWeightRegisters + kInputRegisters + kCopyRegisters <= 512);

template <int kHead, int kOut>
__global__ void __launch_bounds__(kAllThreads, 1)
    NormLinearBackwardKernel(const __grid_constant__ NormLinearBackwardArgs args,
                             const __grid_constant__ BackwardMaps maps) {
  if (!kForHopper) return;
  using Memory = BackwardMemory<kHead, kOut>;
  extern __shared__ __align__(1024) std::uint8_t shared[];
  static_assert(sizeof(Memory) <= kMostBytes);
  auto& memory = *reinterpret_cast<Memory*>(shared);
  const BackwardWork work(args.sizes);
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  if (threadIdx.x == kProductThreads) {
    InitBarrier(&memory.has_weight, 1);
    InitBarrier(&memory.has_scales, kWarpgroup);
    InitStages(memory);
  }
  __syncthreads();
  if (group == kWeightGroups + 1) {
    warpgroup::GiveRegisters<kCopyRegisters>();
    if (threadIdx.x == kProductThreads) CopyBackwardTiles(memory, maps, work);
    if (threadIdx.x == kProductThreads + 32) StoreInputGradient(memory, work, maps.d_x);
  } else if (group == kWeightGroups) {
    warpgroup::TakeRegisters<kInputRegisters>();
    LoadNorm<kHead, kProductThreads>(memory.norm, args.norm_weight);
    FormInputGradient(memory, work, args.sizes.eps);
  } else {
    LoadNorm<kHead, kProductThreads>(memory.norm, args.norm_weight);
    SumWeightGradients(memory, work, args);
  }
}

template <int kHead, int kOut>
cudaError_t LaunchProducts(const NormLinearBackwardArgs& args, CUstream_st* stream) {
  const NormLinearSizes& sizes = args.sizes;
  const TiledMatrix d_y = {args.d_y.data, sizes.num_rows, args.d_y.stride, kOut};
  const TiledMatrix x = {args.x.data, sizes.num_rows, args.x.stride, sizes.in};
  const TiledMatrix weight = {args.weight.data, kOut, args.weight.stride, sizes.in};
  const TiledMatrix d_x = {args.d_x.data, sizes.num_rows, args.d_x.stride, sizes.in};
  constexpr CopyBox kPanel = {kTile, kPanelWidth};
  BackwardMaps maps;
  cudaError_t status = MapMatrix(d_y, kPanel, &maps.d_y);
  if (status == cudaSuccess) status = MapMatrix(x, kPanel, &maps.x);
  if (status == cudaSuccess) status = MapMatrix(weight, {kOut, kPanelWidth}, &maps.weight);
  if (status == cudaSuccess) status = MapMatrix(d_x, kPanel, &maps.d_x);
  if (status != cudaSuccess) return status;
  return LaunchClusters(NormLinearBackwardKernel<kHead, kOut>, NormLinearParts(sizes),
                        static_cast<unsigned>(sizes.in / kColumns), kAllThreads,
                        sizeof(BackwardMemory<kHead, kOut>), stream, args, maps);
}

template <int kHead>
cudaError_t LaunchOut(const NormLinearBackwardArgs& args, CUstream_st* stream) {
  return args.sizes.out == 64 ? LaunchProducts<kHead, 64>(args, stream)
                              : LaunchProducts<kHead, 128>(args, stream);
}

}  // namespace

int LaunchNormLinearBackward(const NormLinearBackwardArgs& args, CUstream_st* stream) {
  const NormLinearSizes& sizes = args.sizes;
  const cudaError_t status =
      sizes.head_dim == 64 ? LaunchOut<64>(args, stream) : LaunchOut<128>(args, stream);
  if (status != cudaSuccess) return status;
  const int parts = NormLinearParts(sizes);
  return LaunchSumLinearParts</*kStrands=*/16>(
      {.parts = args.scratch,
       .num_parts = parts,
       .in = sizes.in,
       .out = sizes.out,
       .num_vector_parts = parts * sizes.in / sizes.head_dim,
       .vector_size = sizes.head_dim,
       .weight = args.d_weight,
       .vector = args.d_norm_weight},
      stream);
}

}  // namespace mixerbench::kernels::fused
