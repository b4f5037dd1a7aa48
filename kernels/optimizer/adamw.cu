// AdamW over a table of tensors, and the norm of their gradients.
//
// A block owns 1024 neighbouring elements of one tensor, a thread four that lie side by side; it
// finds its tensor by counting the blocks of those before. The formula is that of ATen's fused
// AdamW, with beta^step from the logarithm of beta: pow is three times as long, and every block
// waits for it. The norm's partial sums are added by one block in a fixed order:
// deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include "kernels/device/dependent_launch.cuh"
#include "kernels/optimizer/adamw_cuda.h"

namespace mixerbench::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;
constexpr int kPerBlock = kThreads * kPerThread;

__host__ __device__ int BlocksOf(const AdamWTensorArgs& tensor) {
  return static_cast<int>((tensor.size + kPerBlock - 1) / kPerBlock);
}

// Which tensor a block works on, and from which element.
struct Share {
  int tensor = 0;
  long long first = 0;

  __device__ explicit Share(const AdamWArgs& args) {
    int block = static_cast<int>(blockIdx.x);
    while (block >= BlocksOf(args.tensors[tensor])) block -= BlocksOf(args.tensors[tensor++]);
    first = static_cast<long long>(block) * kPerBlock;
  }
};

// The elements of a thread.
struct Four {
  float x[kPerThread];
};

// Those from `at` on of a tensor of `size`, in one access where they are `whole`: all there and
// aligned.
__device__ Four LoadFour(const float* from, long long at, long long size, bool whole) {
  if (whole) {
    const float4 v = *reinterpret_cast<const float4*>(from + at);
    return {v.x, v.y, v.z, v.w};
  }
  Four v;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) v.x[i] = at + i < size ? from[at + i] : 0;
  return v;
}

__device__ void StoreFour(float* to, long long at, long long size, bool whole, const Four& v) {
  if (whole) {
    *reinterpret_cast<float4*>(to + at) = make_float4(v.x[0], v.x[1], v.x[2], v.x[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    if (at + i < size) to[at + i] = v.x[i];
  }
}

__device__ void StoreFour(__nv_bfloat16* to, long long at, long long size, bool whole,
                          const Four& v) {
  if (whole) {
    uint2 packed;
    auto* pairs = reinterpret_cast<__nv_bfloat162*>(&packed);
    pairs[0] = __floats2bfloat162_rn(v.x[0], v.x[1]);
    pairs[1] = __floats2bfloat162_rn(v.x[2], v.x[3]);
    *reinterpret_cast<uint2*>(to + at) = packed;
    return;
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    if (at + i < size) to[at + i] = __float2bfloat16_rn(v.x[i]);
  }
}

__device__ bool IsAligned(const AdamWTensorArgs& tensor) {
  const auto bits = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  return (bits(tensor.parameter) | bits(tensor.gradient) | bits(tensor.first_moment) |
          bits(tensor.second_moment) | bits(tensor.narrow)) %
             sizeof(float4) ==
         0;
}

__global__ void __launch_bounds__(kThreads)
    AdamWKernel(const __grid_constant__ AdamWArgs args, double log_beta1, double log_beta2) {
  LetNextStart();
  __shared__ float corrections[2];  // step size of the update, 1 / sqrt of the second correction
  const Share share(args);
  const AdamWTensorArgs& tensor = args.tensors[share.tensor];
  const long long at = share.first + static_cast<long long>(threadIdx.x) * kPerThread;
  const bool whole = IsAligned(tensor) && at + kPerThread <= tensor.size;
  const float step = *args.step;
  const float rate = *args.learning_rate * tensor.rate_scale;
  // On their way while two threads form the corrections.
  const Four gradient = LoadFour(tensor.gradient, at, tensor.size, whole);
  const Four parameter = LoadFour(tensor.parameter, at, tensor.size, whole);
  const Four first = LoadFour(tensor.first_moment, at, tensor.size, whole);
  const Four second = LoadFour(tensor.second_moment, at, tensor.size, whole);
  if (threadIdx.x == 0) {
    corrections[0] = static_cast<float>(rate / -expm1(step * log_beta1));
  } else if (threadIdx.x == 32) {
    corrections[1] = static_cast<float>(rsqrt(-expm1(step * log_beta2)));
  }
  __syncthreads();
  const float gradient_scale = args.gradient_scale == nullptr ? 1 : *args.gradient_scale;
  const float kept = 1 - rate * tensor.weight_decay;
  const auto beta1 = static_cast<float>(args.beta1);
  const auto beta2 = static_cast<float>(args.beta2);
  const auto one_minus_beta1 = static_cast<float>(1 - args.beta1);
  const auto one_minus_beta2 = static_cast<float>(1 - args.beta2);
  Four updated, m, v;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const float g = gradient.x[i] * gradient_scale;
    m.x[i] = beta1 * first.x[i] + one_minus_beta1 * g;
    v.x[i] = beta2 * second.x[i] + one_minus_beta2 * g * g;
    updated.x[i] = parameter.x[i] * kept -
                   corrections[0] * m.x[i] / (sqrtf(v.x[i]) * corrections[1] + args.eps);
  }
  StoreFour(tensor.parameter, at, tensor.size, whole, updated);
  if (tensor.narrow != nullptr) {
    StoreFour(static_cast<__nv_bfloat16*>(tensor.narrow), at, tensor.size, whole, updated);
  }
  StoreFour(tensor.first_moment, at, tensor.size, whole, m);
  StoreFour(tensor.second_moment, at, tensor.size, whole, v);
}

// The sum over the block, in thread 0.
__device__ float BlockSum(float x) {
  __shared__ float sums[kThreads];
  sums[threadIdx.x] = x;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

__global__ void __launch_bounds__(kThreads)
    SumOfSquaresKernel(const __grid_constant__ AdamWArgs args, float* partials) {
  const Share share(args);
  const AdamWTensorArgs& tensor = args.tensors[share.tensor];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const long long i = share.first + j * kThreads + threadIdx.x;
    if (i < tensor.size) sum += tensor.gradient[i] * tensor.gradient[i];
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) ClipScaleKernel(const float* partials, int num_partials,
                                                            float max_norm, float* gradient_scale) {
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < num_partials; i += kThreads) sum += partials[i];
  sum = BlockSum(sum);
  // NaN and infinity reach the parameters instead of being hidden: fminf would drop them.
  const float scale = max_norm / (sqrtf(sum) + 1e-6f);
  if (threadIdx.x == 0) *gradient_scale = scale > 1 ? 1 : scale;
}

}  // namespace

int SumOfSquaresPartials(const AdamWArgs& args) {
  int blocks = 0;
  for (int i = 0; i < args.num_tensors; ++i) blocks += BlocksOf(args.tensors[i]);
  return blocks;
}

int LaunchAdamW(const AdamWArgs& args, CUstream_st* stream) {
  const auto grid = static_cast<unsigned>(SumOfSquaresPartials(args));
  if (grid == 0) return cudaSuccess;
  AdamWKernel<<<grid, kThreads, 0, stream>>>(args, std::log(args.beta1), std::log(args.beta2));
  return cudaGetLastError();
}

int LaunchSumOfSquares(const AdamWArgs& args, float* partials, CUstream_st* stream) {
  const auto grid = static_cast<unsigned>(SumOfSquaresPartials(args));
  if (grid == 0) return cudaSuccess;
  SumOfSquaresKernel<<<grid, kThreads, 0, stream>>>(args, partials);
  return cudaGetLastError();
}

int LaunchClipScale(const float* partials, int num_partials, float max_norm, float* gradient_scale,
                    CUstream_st* stream) {
  ClipScaleKernel<<<1, kThreads, 0, stream>>>(partials, num_partials, max_norm, gradient_scale);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels
