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
  if (threadIdx.x == kProductThreads) InitBackward(memory);
  __syncthreads();
  if (group == kWeightGroups + 1) {
    GiveRegisters<kCopyRegisters>();
    if (threadIdx.x == kProductThreads) CopyBackwardTiles(memory, maps, work);
    if (threadIdx.x == kProductThreads + 32) StoreInputGradient(memory, maps, work);
  } else if (group == kWeightGroups) {
    TakeRegisters<kInputRegisters>();
    LoadNorm<kHead, kProductThreads>(memory.norm, args.norm_weight);
    FormInputGradient(memory, work, args.sizes.eps);
  } else {
    LoadNorm<kHead, kProductThreads>(memory.norm, args.norm_weight);
    SumWeightGradients(memory, work, args);
  }
}

constexpr int kSumLanes = 32;
constexpr int kSumStrands = 16;

// Adds the parts of the weight's gradient, 32 float4 a block, and, in the blocks after those, of
// the norm's weight. A strand adds every sixteenth part; strands are added in order. fp32,
// deterministic.
__global__ void __launch_bounds__(kSumLanes* kSumStrands)
    SumNormLinearPartsKernel(const NormLinearBackwardArgs args, int num_parts, int weight_blocks) {
  __shared__ float4 strands[kSumStrands][kSumLanes];
  const int lane = static_cast<int>(threadIdx.x);
  const int strand = static_cast<int>(threadIdx.y);
  const int block = static_cast<int>(blockIdx.x);
  const int in = args.sizes.in;
  const int out = args.sizes.out;
  const bool is_weight = block < weight_blocks;
  const int index = (is_weight ? block : block - weight_blocks) * kSumLanes + lane;
  const int size = (is_weight ? in * out : args.sizes.head_dim) / 4;  // float4 of a part
  const auto* parts = reinterpret_cast<const float4*>(args.scratch) +
                      (is_weight ? 0 : static_cast<long long>(num_parts) * in * out / 4);
  if (!is_weight) num_parts *= in / args.sizes.head_dim;
  const auto add = [](float4& sum, const float4& x) {
    sum.x += x.x;
    sum.y += x.y;
    sum.z += x.z;
    sum.w += x.w;
  };
  float4 sum = {0, 0, 0, 0};
  if (index < size) {
#pragma unroll 9
    for (int part = strand; part < num_parts; part += kSumStrands) {
      add(sum, parts[static_cast<long long>(part) * size + index]);
    }
  }
  strands[strand][lane] = sum;
  __syncthreads();
  if (strand != 0 || index >= size) return;
  for (int other = 1; other < kSumStrands; ++other) add(sum, strands[other][lane]);
  if (!is_weight) {
    float* to = args.d_norm_weight + 4 * index;
    to[0] = sum.x;
    to[1] = sum.y;
    to[2] = sum.z;
    to[3] = sum.w;
    return;
  }
  // Accumulators of a 64 x 8 product (hopper.cuh): rows are columns of x, columns those of d_y.
  const int thread = index % kWarpgroup;
  const int quad = index / kWarpgroup;
  const int column = quad / (out / 8) * kPanelWidth + thread / 32 * kProductDepth + thread % 32 / 4;
  const int row = quad % (out / 8) * 8 + thread % 4 * 2;
  float* to = args.d_weight + row * in + column;
  to[0] = sum.x;
  to[in] = sum.y;
  to[8] = sum.z;
  to[in + 8] = sum.w;
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
  const auto blocks_of = [](int floats) { return (floats / 4 + kSumLanes - 1) / kSumLanes; };
  const int weight_blocks = blocks_of(sizes.in * sizes.out);
  SumNormLinearPartsKernel<<<static_cast<unsigned>(weight_blocks + blocks_of(sizes.head_dim)),
                             dim3(kSumLanes, kSumStrands), 0, stream>>>(
      args, NormLinearParts(sizes), weight_blocks);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels::fused
