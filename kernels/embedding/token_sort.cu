// A stable counting sort of tokens by id without atomics. The result does not depend on the launch
// shape.
//
//   Rank    a block counts the ids of 1024 tokens in shared memory; its warps take turns in order,
//           so that a token's rank among equal ones is its place in the batch
//   Scan    where each block's share of an id starts, and each id among 128 neighbouring ones
//   Place   sorted position -> place in the batch and id; where each id starts
//
// Rank may run beside the kernel that was queued before it: it reads nothing but tokens and writes
// scratch that is this sort's alone (EmbeddingBackward::indices), and waits at its end for those
// that rely on the order.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/dependent_launch.cuh"
#include "kernels/embedding/embedding_rows.cuh"
#include "kernels/embedding/token_sort.cuh"

namespace mixerbench::kernels {
namespace {

constexpr int kPlaceThreads = 256;

__global__ void __launch_bounds__(kRankTokens) RankKernel(const EmbeddingBackward args) {
  extern __shared__ std::int32_t histogram[];
  LetNextStart();
  const SortedTokens sorted(args);
  const int thread = static_cast<int>(threadIdx.x);
  const long long n = static_cast<long long>(blockIdx.x) * kRankTokens + thread;
  const int token = n < args.sizes.num_tokens ? TokenAt(args.tokens, n, args.sizes.vocab_size) : -1;
  for (int i = thread; i < args.sizes.vocab_size; i += kRankTokens) histogram[i] = 0;
  const unsigned equal = __match_any_sync(0xffffffffu, token);
  const int before = __popc(equal & ((1u << thread % 32) - 1));
  int seen = 0;  // in earlier warps
  __syncthreads();
  for (int warp = 0; warp < kRankTokens / 32; ++warp) {
    if (warp == thread / 32 && token >= 0 && before == 0) {
      seen = histogram[token];
      histogram[token] = seen + __popc(equal);
    }
    __syncthreads();
  }
  seen = __shfl_sync(0xffffffffu, seen, __ffs(static_cast<int>(equal)) - 1);
  if (token >= 0) sorted.ranks[n] = seen + before;
  std::int32_t* counts = sorted.counts + static_cast<long long>(blockIdx.x) * args.sizes.vocab_size;
  for (int i = thread; i < args.sizes.vocab_size; i += kRankTokens) counts[i] = histogram[i];
  WaitForPrevious();
}

// Exclusive sum over the warp; `total` gets that of all lanes.
__device__ int WarpPrefix(int x, int& total) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int inclusive = x;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, inclusive, offset);
    if (lane >= offset) inclusive += other;
  }
  total = __shfl_sync(0xffffffffu, inclusive, 31);
  return inclusive - x;
}

// A thread owns an id: counts of the chunks become their exclusive sums.
__global__ void __launch_bounds__(kScanIds) ScanKernel(const EmbeddingBackward args) {
  constexpr int kInFlight = 32;  // counts loaded before the first is replaced
  __shared__ int warp_totals[kScanIds / 32];
  const SortedTokens sorted(args);
  const int thread = static_cast<int>(threadIdx.x);
  const int id = static_cast<int>(blockIdx.x) * kScanIds + thread;
  const bool exists = id < args.sizes.vocab_size;
  WaitForPrevious();
  LetNextStart();
  std::int32_t sum = 0;
  for (int chunk = 0; chunk < sorted.num_chunks; chunk += kInFlight) {
    std::int32_t* counts =
        sorted.counts + static_cast<long long>(chunk) * args.sizes.vocab_size + id;
    std::int32_t here[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      here[i] = exists && chunk + i < sorted.num_chunks
                    ? counts[static_cast<long long>(i) * args.sizes.vocab_size]
                    : 0;
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (exists && chunk + i < sorted.num_chunks) {
        counts[static_cast<long long>(i) * args.sizes.vocab_size] = sum;
      }
      sum += here[i];
    }
  }
  int total = 0;
  int start = WarpPrefix(sum, total);
  if (thread % 32 == 0) warp_totals[thread / 32] = total;
  __syncthreads();
  for (int warp = 0; warp < thread / 32; ++warp) start += warp_totals[warp];
  if (exists) sorted.offsets[id] = start;
  if (thread == kScanIds - 1) sorted.totals[blockIdx.x] = start + sum;
}

__global__ void __launch_bounds__(kPlaceThreads) PlaceKernel(const EmbeddingBackward args) {
  __shared__ int bases[Blocks(kMaxEmbeddingVocabulary, kScanIds)];  // of kScanIds ids
  const SortedTokens sorted(args);
  const int thread = static_cast<int>(threadIdx.x);
  const long long i = static_cast<long long>(blockIdx.x) * kPlaceThreads + thread;
  const int token = i < args.sizes.num_tokens ? TokenAt(args.tokens, i, args.sizes.vocab_size) : -1;
  int position = 0;  // among the ids that share a base
  WaitForPrevious();
  if (token >= 0) {
    position = sorted.offsets[token] +
               sorted.counts[i / kRankTokens * args.sizes.vocab_size + token] + sorted.ranks[i];
  }
  if (thread < 32) {
    int base = 0;
    const int num_bases = Blocks(args.sizes.vocab_size, kScanIds);
    for (int first = 0; first < num_bases; first += 32) {
      const int here = first + thread;
      int total = 0;
      const int start = base + WarpPrefix(here < num_bases ? sorted.totals[here] : 0, total);
      if (here < num_bases) bases[here] = start;
      base += total;
    }
  }
  __syncthreads();
  if (token >= 0) {
    sorted.order[bases[token / kScanIds] + position] = make_int2(static_cast<int>(i), token);
  }
  for (long long id = i; id <= args.sizes.vocab_size;
       id += static_cast<long long>(gridDim.x) * kPlaceThreads) {
    sorted.starts[id] = id < args.sizes.vocab_size ? bases[id / kScanIds] + sorted.offsets[id]
                                                   : static_cast<int>(args.sizes.num_tokens);
  }
}

}  // namespace

int LaunchTokenSort(const EmbeddingBackward& args, CUstream_st* stream) {
  const EmbeddingSizes& sizes = args.sizes;
  // Always the same limit: other threads launch this kernel too.
  cudaError_t status =
      cudaFuncSetAttribute(RankKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kMaxEmbeddingVocabulary * static_cast<int>(sizeof(std::int32_t)));
  if (status == cudaSuccess) {
    status = LaunchEarlyWith(static_cast<std::size_t>(sizes.vocab_size) * sizeof(std::int32_t),
                             RankKernel, Blocks(sizes.num_tokens, kRankTokens), kRankTokens, stream,
                             args);
  }
  if (status == cudaSuccess) {
    status = LaunchEarly(ScanKernel, Blocks(sizes.vocab_size, kScanIds), kScanIds, stream, args);
  }
  if (status == cudaSuccess) {
    status = LaunchEarly(PlaceKernel, Blocks(sizes.num_tokens, kPlaceThreads), kPlaceThreads,
                         stream, args);
  }
  if (status != cudaSuccess) cudaGetLastError();  // clears it: the caller gets it as a value
  return status;
}

}  // namespace mixerbench::kernels
