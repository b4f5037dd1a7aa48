// AdamW over a table of tensors, and the norm of their gradients.
//
// A block owns 2048 neighbouring elements of one tensor, a thread eight of them in steps of a
// block's width; it finds its tensor by counting the blocks of those before. The formula is that of
// ATen's fused AdamW. The norm's partial sums are added by one block in a fixed order:
// deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include "kernels/fused/adamw_device.h"
#include "kernels/fused/dependent_launch.cuh"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 8;
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

__global__ void __launch_bounds__(kThreads) AdamWKernel(const __grid_constant__ AdamWArgs args) {
  LetNextStart();
  __shared__ float corrections[2];  // step size of the update, 1 / sqrt of the second correction
  const Share share(args);
  const AdamWTensorArgs& tensor = args.tensors[share.tensor];
  const auto index = [&](int j) { return share.first + j * kThreads + threadIdx.x; };
  // On their way while one thread forms the corrections.
  float gradient[kPerThread], parameter[kPerThread], first[kPerThread], second[kPerThread];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const bool exists = index(j) < tensor.size;
    gradient[j] = exists ? tensor.gradient[index(j)] : 0;
    parameter[j] = exists ? tensor.parameter[index(j)] : 0;
    first[j] = exists ? tensor.first_moment[index(j)] : 0;
    second[j] = exists ? tensor.second_moment[index(j)] : 0;
  }
  const float rate = *args.learning_rate;
  if (threadIdx.x == 0) {
    const double step = *args.step;
    corrections[0] = static_cast<float>(rate / (1 - pow(args.beta1, step)));
    corrections[1] = static_cast<float>(rsqrt(1 - pow(args.beta2, step)));
  }
  __syncthreads();
  const float gradient_scale = args.gradient_scale == nullptr ? 1 : *args.gradient_scale;
  const float kept = 1 - rate * tensor.weight_decay;
  auto* narrow = static_cast<__nv_bfloat16*>(tensor.narrow);
  const auto beta1 = static_cast<float>(args.beta1);
  const auto beta2 = static_cast<float>(args.beta2);
  const auto one_minus_beta1 = static_cast<float>(1 - args.beta1);
  const auto one_minus_beta2 = static_cast<float>(1 - args.beta2);
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    if (index(j) >= tensor.size) break;
    const float g = gradient[j] * gradient_scale;
    const float m = beta1 * first[j] + one_minus_beta1 * g;
    const float v = beta2 * second[j] + one_minus_beta2 * g * g;
    const float updated =
        parameter[j] * kept - corrections[0] * m / (sqrtf(v) * corrections[1] + args.eps);
    tensor.parameter[index(j)] = updated;
    if (narrow != nullptr) narrow[index(j)] = __float2bfloat16_rn(updated);
    tensor.first_moment[index(j)] = m;
    tensor.second_moment[index(j)] = v;
  }
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
  AdamWKernel<<<grid, kThreads, 0, stream>>>(args);
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

}  // namespace mixerbench::kernels::fused
