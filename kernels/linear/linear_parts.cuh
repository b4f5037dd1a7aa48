// Sums of the parts in which linear_backward.cu leaves the gradients of a weight and of a bias.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "kernels/device/dependent_launch.cuh"
#include "kernels/device/hopper.cuh"

namespace mixerbench::kernels {

struct LinearParts {
  // At a multiple of 16 bytes: [num_parts] gradients of the weight as accumulators,
  // [in / 64, quad, thread, 4] (hopper.cuh: rows are columns of x, columns those of the gradient of
  // the result), then [num_bias_parts, out] of the bias.
  const float* parts = nullptr;
  int num_parts = 0;
  int in = 0;
  int out = 0;  // a multiple of 8
  int num_bias_parts = 0;
  bool has_bias = false;

  float* weight = nullptr;  // [out, in]
  float* bias = nullptr;    // [out]
};

constexpr int kPartsLanes = 32;
constexpr int kPartsStrands = 8;

// 32 float4 a block; those of the bias come after the weight's. A strand adds every eighth
// part; strands are added in order. fp32, deterministic.
inline __global__ void __launch_bounds__(kPartsLanes* kPartsStrands)
    SumLinearPartsKernel(const LinearParts args, int weight_blocks) {
  __shared__ float4 strands[kPartsStrands][kPartsLanes];
  LetNextStart();
  const int lane = static_cast<int>(threadIdx.x);
  const int strand = static_cast<int>(threadIdx.y);
  const int block = static_cast<int>(blockIdx.x);
  const bool is_weight = block < weight_blocks;
  const int index = (is_weight ? block : block - weight_blocks) * kPartsLanes + lane;
  const int weight_size = args.in * args.out / 4;  // float4
  const int size = is_weight ? weight_size : args.out / 4;
  const int num_parts = is_weight ? args.num_parts : args.num_bias_parts;
  const auto* parts = reinterpret_cast<const float4*>(args.parts) +
                      (is_weight ? 0 : static_cast<long long>(args.num_parts) * weight_size) +
                      index;
  const auto add = [](float4& sum, const float4& x) {
    sum.x += x.x;
    sum.y += x.y;
    sum.z += x.z;
    sum.w += x.w;
  };
  float4 sum = {0, 0, 0, 0};
  if (index < size) {
#pragma unroll 9
    for (int part = strand; part < num_parts; part += kPartsStrands) {
      add(sum, parts[static_cast<long long>(part) * size]);
    }
  }
  strands[strand][lane] = sum;
  __syncthreads();
  if (strand != 0 || index >= size) return;
  for (int other = 1; other < kPartsStrands; ++other) add(sum, strands[other][lane]);
  if (!is_weight) {
    float* to = args.bias + 4 * index;
    to[0] = sum.x;
    to[1] = sum.y;
    to[2] = sum.z;
    to[3] = sum.w;
    return;
  }
  const int thread = index % kWarpgroup;
  const int quad = index / kWarpgroup;
  const int quads = args.out / 8;  // of a panel
  const int column = quad / quads * kPanelWidth + thread / 32 * kProductDepth + thread % 32 / 4;
  const int row = quad % quads * 8 + thread % 4 * 2;
  float* to = args.weight + row * args.in + column;
  to[0] = sum.x;
  to[args.in] = sum.y;
  to[8] = sum.z;
  to[args.in + 8] = sum.w;
}

inline cudaError_t LaunchSumLinearParts(const LinearParts& args, cudaStream_t stream) {
  const auto blocks_of = [](int floats) { return (floats / 4 + kPartsLanes - 1) / kPartsLanes; };
  const int weight_blocks = blocks_of(args.in * args.out);
  const int bias_blocks = args.has_bias ? blocks_of(args.out) : 0;
  SumLinearPartsKernel<<<static_cast<unsigned>(weight_blocks + bias_blocks),
                         dim3(kPartsLanes, kPartsStrands), 0, stream>>>(args, weight_blocks);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels
