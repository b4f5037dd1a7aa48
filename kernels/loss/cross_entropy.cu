// Softmax cross-entropy of rows of logits: loss, arg-max and gradient.
//
// A block owns a row. Rows of up to 8192 aligned logits stay in the registers of its threads, first
// as they are, then as exponentials relative to the maximum of the warp; what the warps say is
// merged once, and the gradient is one product a logit. Others are read twice, the second time from
// the cache, with a running maximum. Statistics in fp32, sums in a fixed order: deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "kernels/device/fast_math.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/loss/cross_entropy_cuda.h"

namespace mixerbench::kernels {
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

// To subtract before an exponential: exp(-inf - -inf) shall be 0; NaN stays.
__device__ float Shift(float max) { return max == kMinusInfinity ? 0 : max; }

__device__ float Exponential(float x, float max) { return Exp2(kLog2E * (x - Shift(max))); }

__device__ Summary Merge(const Summary& a, const Summary& b) {
  const bool take_b = b.max > a.max || (b.max == a.max && b.arg_max < a.arg_max);
  const float max = fmaxf(a.max, b.max);
  return {max, a.sum * Exponential(a.max, max) + b.sum * Exponential(b.max, max),
          take_b ? b.arg_max : a.arg_max};
}

// The block's, given those of its warps; arg_max in thread 0 alone. Parts of warps need not be
// neighbours.
__device__ Summary MergeWarps(const Summary& mine) {
  __shared__ float max[kWarps];
  __shared__ float sum[kWarps];
  __shared__ int arg_max[kWarps];
  if (threadIdx.x % 32 == 0) {
    max[threadIdx.x / 32] = mine.max;
    sum[threadIdx.x / 32] = mine.sum;
    arg_max[threadIdx.x / 32] = mine.arg_max;
  }
  __syncthreads();
  Summary all = Empty();
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) all.max = fmaxf(all.max, max[warp]);
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) all.sum += sum[warp] * Exponential(max[warp], all.max);
  if (threadIdx.x != 0) return all;
  all.arg_max = std::numeric_limits<int>::max();
  for (int warp = 0; warp < kWarps; ++warp) {
    if (max[warp] == all.max) all.arg_max = min(all.arg_max, arg_max[warp]);
  }
  return all;
}

__device__ Summary MergeWarp(Summary mine) {
  for (int offset = 16; offset > 0; offset /= 2) {
    mine = Merge(mine, {__shfl_xor_sync(0xffffffffu, mine.max, offset),
                        __shfl_xor_sync(0xffffffffu, mine.sum, offset),
                        __shfl_xor_sync(0xffffffffu, mine.arg_max, offset)});
  }
  return mine;
}

template <typename T>
__device__ T WarpSum(T x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

__device__ float WarpMax(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  }
  return x;
}

// The row of a block. Blocks scan the rows from the end: what the product before wrote last is
// still in the cache, and so will be the gradients that the product after reads first.
__device__ long long RowOfBlock() { return gridDim.x - 1LL - blockIdx.x; }

struct Row {
  long long index;
  int target;          // negative: does not count
  float scale;         // of its gradient
  float target_logit;  // in thread 0

  __device__ explicit Row(const CrossEntropyForward& args) : index(RowOfBlock()) {
    const std::int64_t given = args.targets[index];
    if (given >= args.vocab_size) __trap();
    target = given < 0 ? -1 : static_cast<int>(given);
    scale = target >= 0 && args.d_logits.data != nullptr ? *args.inverse_count : 0;
    target_logit = threadIdx.x == 0 && target >= 0
                       ? LoadOne(args.logits, index * args.logits.stride + target)
                       : 0;
  }

  // Called by thread 0. An arg-max past the end is that of a row of NaN.
  __device__ void Finish(const CrossEntropyForward& args, const Summary& summary) const {
    args.nll[index] = target < 0 ? 0 : summary.max + logf(summary.sum) - target_logit;
    args.predicted[index] = summary.arg_max < args.vocab_size ? summary.arg_max : 0;
  }
};

template <typename T, int kVectors>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 2 ? 4 : 2)
    CachedRowKernel(const CrossEntropyForward args) {
  const int first = static_cast<int>(threadIdx.x) * kVector;
  constexpr int kStep = kThreads * kVector;
  const long long index = RowOfBlock();
  const T* logits = static_cast<const T*>(args.logits.data) + index * args.logits.stride;
  Packed<T> raw[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (first + k * kStep < args.vocab_size) raw[k] = LoadPacked(logits + first + k * kStep, true);
  }
  const Row row(args);
  // The maximum of the warp, to which its exponentials are relative.
  Summary summary = Empty();
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (first + k * kStep >= args.vocab_size) continue;
    const Vector v = raw[k].Unpack();
#pragma unroll
    for (int i = 0; i < kVector; ++i) summary.max = fmaxf(summary.max, v.x[i]);
  }
  summary.max = WarpMax(summary.max);
  summary.arg_max = args.vocab_size;
  const float shift = -kLog2E * Shift(summary.max);
  Vector e[kVectors];  // exp(x - max)
#pragma unroll
  for (int k = kVectors - 1; k >= 0; --k) {
    if (first + k * kStep >= args.vocab_size) continue;
    e[k] = raw[k].Unpack();
#pragma unroll
    for (int i = kVector - 1; i >= 0; --i) {
      if (e[k].x[i] == summary.max) summary.arg_max = first + k * kStep + i;
      e[k].x[i] = Exp2(kLog2E * e[k].x[i] + shift);
      summary.sum += e[k].x[i];
    }
  }
  summary.sum = WarpSum(summary.sum);
  summary.arg_max = __reduce_min_sync(0xffffffffu, summary.arg_max);
  const float warp_max = summary.max;
  summary = MergeWarps(summary);
  if (threadIdx.x == 0) row.Finish(args, summary);
  if (args.d_logits.data == nullptr) return;
  const float factor = row.scale / summary.sum * Exponential(warp_max, summary.max);
  T* gradient = static_cast<T*>(args.d_logits.data) + index * args.d_logits.stride;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int column = first + k * kStep;
    if (column >= args.vocab_size) continue;
#pragma unroll
    for (int i = 0; i < kVector; ++i) e[k].x[i] *= factor;
    if (row.target >= column && row.target < column + kVector) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) e[k].x[i] -= column + i == row.target ? row.scale : 0;
    }
    StoreVector(gradient + column, e[k]);
  }
}

__global__ void __launch_bounds__(kThreads) RowKernel(const CrossEntropyForward args) {
  const Row row(args);
  const long long base = row.index * args.logits.stride;
  Summary summary = Empty();
#pragma unroll 4
  for (int column = static_cast<int>(threadIdx.x); column < args.vocab_size; column += kThreads) {
    const float x = LoadOne(args.logits, base + column);
    if (x > summary.max) summary = {x, summary.sum * Exponential(summary.max, x), column};
    summary.sum += Exponential(x, summary.max);
  }
  summary = MergeWarps(MergeWarp(summary));
  if (threadIdx.x == 0) row.Finish(args, summary);
  if (args.d_logits.data == nullptr) return;
  const float factor = row.scale / summary.sum;
  const long long d_base = row.index * args.d_logits.stride;
#pragma unroll 4
  for (int column = static_cast<int>(threadIdx.x); column < args.vocab_size; column += kThreads) {
    const float e = Exponential(LoadOne(args.logits, base + column), summary.max);
    StoreOne(args.d_logits, d_base + column, factor * e - (column == row.target ? row.scale : 0));
  }
}

// One block: each thread adds every 1024th term, then warps and the sums of warps are added.
template <typename T, typename F>
__device__ T SumInOneBlock(long long size, F term) {
  __shared__ T sums[kSingleBlock / 32];
  T sum = 0;
#pragma unroll 4
  for (long long i = threadIdx.x; i < size; i += kSingleBlock) sum += term(i);
  sum = WarpSum(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  return WarpSum(sums[threadIdx.x % 32]);
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
  constexpr unsigned kBlocks = 264;
  if (element == Element::kFloat) {
    ScaleUnlessOneKernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<float*>(data), size, factor);
  } else {
    ScaleUnlessOneKernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(data), size,
                                                           factor);
  }
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels
