// Softmax cross-entropy of rows of logits: loss, arg-max and gradient.
//
// A block owns a row. Rows of up to 8192 aligned logits stay in the registers of its threads:
// maximum and arg-max, sum of exponentials, gradient. Others are read twice, the second time from
// the cache, with a running maximum. Statistics in fp32, sums in a fixed order: deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "kernels/fused/cross_entropy_device.h"
#include "kernels/fused/vector_io.cuh"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kSingleBlock = 1024;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

__device__ float LoadOne(const ConstRows& rows, long long index) {
  return rows.element == Element::kFloat
             ? static_cast<const float*>(rows.data)[index]
             : __bfloat162float(static_cast<const __nv_bfloat16*>(rows.data)[index]);
}

__device__ void StoreOne(const Rows& rows, long long index, float x) {
  if (rows.element == Element::kFloat) {
    static_cast<float*>(rows.data)[index] = x;
  } else {
    static_cast<__nv_bfloat16*>(rows.data)[index] = __float2bfloat16_rn(x);
  }
}

// What a part of a row says about its softmax and its arg-max; sum is of exp(x - max).
struct Summary {
  float max;
  float sum;
  int arg_max;
};

__device__ constexpr Summary Empty() { return {kMinusInfinity, 0, 0}; }

// exp(x - max), where exp(-inf - -inf) is 0; NaN stays.
__device__ float Exponential(float x, float max) {
  return __expf(x - (max == kMinusInfinity ? 0 : max));
}

__device__ Summary Merge(const Summary& a, const Summary& b) {
  const bool take_b = b.max > a.max || (b.max == a.max && b.arg_max < a.arg_max);
  const float max = fmaxf(a.max, b.max);
  return {max, a.sum * Exponential(a.max, max) + b.sum * Exponential(b.max, max),
          take_b ? b.arg_max : a.arg_max};
}

// The whole block's; `mine` of neighbouring threads need not be neighbouring parts.
__device__ Summary MergeBlock(Summary mine) {
  __shared__ float max[kWarps];
  __shared__ float sum[kWarps];
  __shared__ int arg_max[kWarps];
  for (int offset = 16; offset > 0; offset /= 2) {
    mine = Merge(mine, {__shfl_down_sync(0xffffffffu, mine.max, offset),
                        __shfl_down_sync(0xffffffffu, mine.sum, offset),
                        __shfl_down_sync(0xffffffffu, mine.arg_max, offset)});
  }
  if (threadIdx.x % 32 == 0) {
    max[threadIdx.x / 32] = mine.max;
    sum[threadIdx.x / 32] = mine.sum;
    arg_max[threadIdx.x / 32] = mine.arg_max;
  }
  __syncthreads();
  Summary all{max[0], sum[0], arg_max[0]};
  for (int warp = 1; warp < kWarps; ++warp) all = Merge(all, {max[warp], sum[warp], arg_max[warp]});
  return all;
}

// What a thread needs to finish a row.
struct RowResult {
  float log_sum;  // log of the sum of exponentials
  float scale;    // of the gradient
  long long target;
};

__device__ RowResult FinishRow(const CrossEntropyForward& args, const Summary& summary) {
  const long long row = blockIdx.x;
  const std::int64_t target = args.targets[row];
  if (target >= args.vocab_size) __trap();
  const float log_sum = summary.max + logf(summary.sum);
  if (threadIdx.x == 0) {
    args.nll[row] =
        target < 0 ? 0 : log_sum - LoadOne(args.logits, row * args.logits.stride + target);
    args.predicted[row] = summary.arg_max;
  }
  const bool counts = target >= 0 && args.d_logits.data != nullptr;
  return {log_sum, counts ? *args.inverse_count : 0, target};
}

__device__ float Gradient(const RowResult& row, float logit, int column) {
  return row.scale * (__expf(logit - row.log_sum) - (column == row.target ? 1.0f : 0.0f));
}

// Eight logits as they lie in memory.
template <typename T>
struct Raw {
  uint4 bits[sizeof(T) / 2];

  __device__ Vector Values() const {
    if constexpr (sizeof(T) == 4) {
      return LoadFloat(reinterpret_cast<const float*>(bits));
    } else {
      return LoadBFloat16(reinterpret_cast<const __nv_bfloat16*>(bits));
    }
  }
};

template <typename T, int kVectors>
__global__ void __launch_bounds__(kThreads, 4) CachedRowKernel(const CrossEntropyForward args) {
  __shared__ float sums[kWarps];
  const long long base = blockIdx.x * args.logits.stride;
  const int first = static_cast<int>(threadIdx.x) * kVector;
  constexpr int kStep = kThreads * kVector;
  Raw<T> raw[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (first + k * kStep >= args.vocab_size) continue;
    raw[k] = *reinterpret_cast<const Raw<T>*>(static_cast<const T*>(args.logits.data) + base +
                                              first + k * kStep);
  }
  Summary summary = Empty();
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (first + k * kStep >= args.vocab_size) continue;
    const Vector v = raw[k].Values();
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (v.x[i] > summary.max) {
        summary.max = v.x[i];
        summary.arg_max = first + k * kStep + i;
      }
    }
  }
  summary = MergeBlock(summary);
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (first + k * kStep >= args.vocab_size) continue;
    const Vector v = raw[k].Values();
#pragma unroll
    for (int i = 0; i < kVector; ++i) sum += Exponential(v.x[i], summary.max);
  }
  sum = GroupSum(sum, 32);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  summary.sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) summary.sum += sums[warp];

  const RowResult row = FinishRow(args, summary);
  if (args.d_logits.data == nullptr) return;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int column = first + k * kStep;
    if (column >= args.vocab_size) continue;
    Vector v = raw[k].Values();
#pragma unroll
    for (int i = 0; i < kVector; ++i) v.x[i] = Gradient(row, v.x[i], column + i);
    Store(args.d_logits.data, args.d_logits.element, blockIdx.x * args.d_logits.stride + column, v);
  }
}

__global__ void __launch_bounds__(kThreads) RowKernel(const CrossEntropyForward args) {
  const long long base = blockIdx.x * args.logits.stride;
  Summary summary = Empty();
#pragma unroll 4
  for (int column = static_cast<int>(threadIdx.x); column < args.vocab_size; column += kThreads) {
    const float x = LoadOne(args.logits, base + column);
    if (x > summary.max) summary = {x, summary.sum * Exponential(summary.max, x), column};
    summary.sum += Exponential(x, summary.max);
  }
  const RowResult row = FinishRow(args, MergeBlock(summary));
  if (args.d_logits.data == nullptr) return;
  const long long d_base = blockIdx.x * args.d_logits.stride;
#pragma unroll 4
  for (int column = static_cast<int>(threadIdx.x); column < args.vocab_size; column += kThreads) {
    StoreOne(args.d_logits, d_base + column,
             Gradient(row, LoadOne(args.logits, base + column), column));
  }
}

// One block: each thread adds every 1024th term, a tree adds the threads.
template <typename T, typename F>
__device__ T SumInOneBlock(long long size, F term) {
  __shared__ T sums[kSingleBlock];
  T sum = 0;
#pragma unroll 4
  for (long long i = threadIdx.x; i < size; i += kSingleBlock) sum += term(i);
  sums[threadIdx.x] = sum;
  for (unsigned half = kSingleBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];  // valid in thread 0
}

__global__ void __launch_bounds__(kSingleBlock) CountKernel(const CrossEntropyForward args) {
  const int count =
      SumInOneBlock<int>(args.num_rows, [&](long long i) { return args.targets[i] >= 0 ? 1 : 0; });
  if (threadIdx.x == 0) *args.inverse_count = 1.0f / static_cast<float>(count);
}

__global__ void __launch_bounds__(kSingleBlock) MeanKernel(const CrossEntropyForward args) {
  const float sum = SumInOneBlock<float>(args.num_rows, [&](long long i) { return args.nll[i]; });
  if (threadIdx.x == 0) *args.loss = sum * *args.inverse_count;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    ScaleUnlessOneKernel(T* data, long long size, const float* factor) {
  const float scale = *factor;
  if (scale == 1) return;
  const long long step = static_cast<long long>(gridDim.x) * kThreads;
  for (long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; i < size;
       i += step) {
    data[i] = static_cast<T>(static_cast<float>(data[i]) * scale);
  }
}

bool IsVector(const void* data, long long stride) {
  return data == nullptr ||
         (reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % kVector == 0);
}

}  // namespace

int LaunchCrossEntropyForward(const CrossEntropyForward& args, CUstream_st* stream) {
  if (args.num_rows == 0) return cudaErrorInvalidValue;
  const bool mean = args.loss != nullptr || args.d_logits.data != nullptr;
  if (mean) CountKernel<<<1, kSingleBlock, 0, stream>>>(args);
  const auto grid = static_cast<unsigned>(args.num_rows);
  const bool aligned = args.vocab_size % kVector == 0 &&
                       IsVector(args.logits.data, args.logits.stride) &&
                       IsVector(args.d_logits.data, args.d_logits.stride);
  const bool narrow = args.logits.element == Element::kBFloat16;
  const int vectors = (args.vocab_size + kThreads * kVector - 1) / (kThreads * kVector);
  if (aligned && vectors == 1) {
    narrow ? CachedRowKernel<__nv_bfloat16, 1><<<grid, kThreads, 0, stream>>>(args)
           : CachedRowKernel<float, 1><<<grid, kThreads, 0, stream>>>(args);
  } else if (aligned && vectors <= 4) {
    narrow ? CachedRowKernel<__nv_bfloat16, 4><<<grid, kThreads, 0, stream>>>(args)
           : CachedRowKernel<float, 4><<<grid, kThreads, 0, stream>>>(args);
  } else {
    RowKernel<<<grid, kThreads, 0, stream>>>(args);
  }
  if (args.loss != nullptr) MeanKernel<<<1, kSingleBlock, 0, stream>>>(args);
  return cudaGetLastError();
}

int LaunchScaleUnlessOne(void* data, Element element, long long size, const float* factor,
                         CUstream_st* stream) {
  constexpr unsigned kBlocks = 1056;
  if (element == Element::kFloat) {
    ScaleUnlessOneKernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<float*>(data), size, factor);
  } else {
    ScaleUnlessOneKernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(data), size,
                                                           factor);
  }
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels::fused
