// Gradient of an embedding table without float atomics: tokens are sorted by id (a stable counting
// sort), the sorted rows are summed in segments of equal length, and the ids that cross a segment's
// border add their parts in order. The result does not depend on the launch shape.
//
//   Rank    a block counts the ids of 1024 tokens in shared memory; a warp walks them in order, so
//           that a token's rank among equal ones is its place in the batch
//   Scan    start of each id in the sorted order, and of each block's share of it
//   Place   sorted position -> place in the batch and id
//   Segment a group of lanes adds the rows of 32 sorted positions; an id inside goes to d_table,
//   one
//           that crosses a border to `partials` [segment][first or last]
//   Combine a block finishes 16 ids: absent ones become zero, crossing ones are added in order
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused/embedding_device.h"
#include "kernels/fused/row_layout.cuh"
#include "kernels/fused/token_ids.cuh"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kRankTokens = 1024;
constexpr int kSegment = 32;
constexpr int kIdsPerBlock = 16;

// Views of EmbeddingBackward::indices.
struct Scratch {
  int num_chunks;        // of kRankTokens tokens
  int2* order;           // [N]: place in the batch and id of a sorted position
  std::int32_t* ranks;   // [N]: among equal ids of the same chunk
  std::int32_t* counts;  // [num_chunks, V]: of an id, then where the chunk's share of it starts
  std::int32_t* starts;  // [V + 1]

  __host__ __device__ Scratch(std::int32_t* base, long long num_tokens, int vocab_size)
      : num_chunks(static_cast<int>((num_tokens + kRankTokens - 1) / kRankTokens)),
        order(reinterpret_cast<int2*>(base)),
        ranks(base + 2 * num_tokens),
        counts(base + 3 * num_tokens),
        starts(counts + static_cast<long long>(num_chunks) * vocab_size) {}
};

__global__ void __launch_bounds__(kThreads) RankKernel(const EmbeddingBackward args) {
  extern __shared__ std::int32_t histogram[];
  const Scratch scratch(args.indices, args.num_tokens, args.vocab_size);
  for (int i = static_cast<int>(threadIdx.x); i < args.vocab_size; i += kThreads) histogram[i] = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    constexpr int kRounds = kRankTokens / 32;
    const int lane = static_cast<int>(threadIdx.x);
    const long long first = static_cast<long long>(blockIdx.x) * kRankTokens + lane;
    int tokens[kRounds];
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const long long n = first + 32 * i;
      tokens[i] = n < args.num_tokens ? TokenAt(args.tokens, n, args.vocab_size) : -1;
    }
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const bool valid = tokens[i] >= 0;
      const unsigned equal = __match_any_sync(0xffffffffu, tokens[i]);
      const int before = __popc(equal & ((1u << lane) - 1));
      const int seen = valid ? histogram[tokens[i]] : 0;
      __syncwarp();
      if (valid) {
        if (before == 0) histogram[tokens[i]] = seen + __popc(equal);
        scratch.ranks[first + 32 * i] = seen + before;
      }
      __syncwarp();
    }
  }
  __syncthreads();
  std::int32_t* counts = scratch.counts + static_cast<long long>(blockIdx.x) * args.vocab_size;
  for (int i = static_cast<int>(threadIdx.x); i < args.vocab_size; i += kThreads) {
    counts[i] = histogram[i];
  }
}

// A thread owns an id: counts of the chunks become their exclusive sums; starts[id] the total.
__global__ void __launch_bounds__(kThreads) ScanChunksKernel(const EmbeddingBackward args) {
  const Scratch scratch(args.indices, args.num_tokens, args.vocab_size);
  const int id = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (id >= args.vocab_size) return;
  constexpr int kInFlight = 16;  // counts loaded before the first is replaced
  std::int32_t total = 0;
  for (int chunk = 0; chunk < scratch.num_chunks; chunk += kInFlight) {
    std::int32_t* counts = scratch.counts + static_cast<long long>(chunk) * args.vocab_size + id;
    std::int32_t here[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      here[i] =
          chunk + i < scratch.num_chunks ? counts[static_cast<long long>(i) * args.vocab_size] : 0;
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (chunk + i < scratch.num_chunks)
        counts[static_cast<long long>(i) * args.vocab_size] = total;
      total += here[i];
    }
  }
  scratch.starts[id] = total;
}

// One block: totals become exclusive sums, starts[V] the number of tokens.
__global__ void __launch_bounds__(1024) ScanTotalsKernel(const EmbeddingBackward args) {
  __shared__ std::int32_t warp_sums[32];
  const Scratch scratch(args.indices, args.num_tokens, args.vocab_size);
  const int thread = static_cast<int>(threadIdx.x);
  const int share = (args.vocab_size + 1023) / 1024;
  const int first = std::min(thread * share, args.vocab_size);
  const int last = std::min(first + share, args.vocab_size);
  std::int32_t sum = 0;
  for (int i = first; i < last; ++i) sum += scratch.starts[i];
  std::int32_t inclusive = sum;
  for (int offset = 1; offset < 32; offset *= 2) {
    const std::int32_t other = __shfl_up_sync(0xffffffffu, inclusive, offset);
    if (thread % 32 >= offset) inclusive += other;
  }
  if (thread % 32 == 31) warp_sums[thread / 32] = inclusive;
  __syncthreads();
  std::int32_t start = inclusive - sum;
  for (int warp = 0; warp < thread / 32; ++warp) start += warp_sums[warp];
  for (int i = first; i < last; ++i) {
    const std::int32_t total = scratch.starts[i];
    scratch.starts[i] = start;
    start += total;
  }
  if (thread == 0) scratch.starts[args.vocab_size] = static_cast<std::int32_t>(args.num_tokens);
}

__global__ void __launch_bounds__(kThreads) PlaceKernel(const EmbeddingBackward args) {
  const Scratch scratch(args.indices, args.num_tokens, args.vocab_size);
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= args.num_tokens) return;
  const int token = TokenAt(args.tokens, i, args.vocab_size);
  const long long chunk = i / kRankTokens;
  scratch.order[scratch.starts[token] + scratch.counts[chunk * args.vocab_size + token] +
                scratch.ranks[i]] = make_int2(static_cast<int>(i), token);
}

__device__ float* PartialOf(const EmbeddingBackward& args, long long segment, int slot) {
  return args.partials + (2 * segment + slot) * args.width;
}

// The row of d_out at place n, through the mask of the dropout.
template <int kChunks>
__device__ RowValues<kChunks> LoadGradient(const RowLayout& layout, const EmbeddingBackward& args,
                                           long long n) {
  auto row = LoadRow<kChunks>(layout, ConstRows{args.d_out, args.d_out_element, args.width}, n);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (!layout.Active(c)) continue;
    ApplyDropout(args.dropout, args.seed, n * args.width + layout.Column(c), row.chunk[c]);
  }
  return row;
}

template <int kChunks>
__device__ void Accumulate(RowValues<kChunks>& sum, const RowValues<kChunks>& row) {
  ForEach<kChunks>([&](int c, int i) { sum.chunk[c].x[i] += row.chunk[c].x[i]; });
}

template <int kChunks>
__global__ void __launch_bounds__(kThreads) SegmentKernel(const EmbeddingBackward args) {
  constexpr int kInFlight = kChunks == 1 ? 8 : 4;  // rows loaded before the first is used
  extern __shared__ int2 entries[];                // kSegment for each group
  static_assert(kSegment % kInFlight == 0);
  const Scratch scratch(args.indices, args.num_tokens, args.vocab_size);
  const RowLayout layout(args.width);
  const int num_entries = layout.num_groups * kSegment;
  const long long block_first = static_cast<long long>(blockIdx.x) * num_entries;
  for (int i = static_cast<int>(threadIdx.x); i < num_entries; i += kThreads) {
    entries[i] =
        block_first + i < args.num_tokens ? scratch.order[block_first + i] : make_int2(0, -1);
  }
  __syncthreads();
  const int2* mine = entries + layout.group * kSegment;
  const long long segment = static_cast<long long>(blockIdx.x) * layout.num_groups + layout.group;
  const long long first = segment * kSegment;
  const long long last = std::min(first + kSegment, args.num_tokens);
  RowValues<kChunks> sum{};
  for (int i = 0; i < kSegment; i += kInFlight) {
    RowValues<kChunks> rows[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (mine[i + j].y >= 0) rows[j] = LoadGradient<kChunks>(layout, args, mine[i + j].x);
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int id = mine[i + j].y;
      if (id < 0) continue;
      Accumulate(sum, rows[j]);
      if (i + j + 1 < kSegment && mine[i + j + 1].y == id) continue;
      const long long start = scratch.starts[id];
      const bool inside = start >= first && scratch.starts[id + 1] <= last;
      float* target = inside ? args.d_table + static_cast<long long>(id) * args.width
                             : PartialOf(args, segment, start <= first ? 0 : 1);
      StoreRow(layout, Rows{target, Element::kFloat, 0}, 0, sum);
      sum = RowValues<kChunks>{};
    }
  }
}

template <int kChunks>
__global__ void __launch_bounds__(kThreads) CombineKernel(const EmbeddingBackward args) {
  constexpr int kInFlight = kChunks == 1 ? 8 : 4;
  __shared__ float buffer[kThreads * kVector * kChunks];
  __shared__ std::int32_t starts[kIdsPerBlock + 1];
  const Scratch scratch(args.indices, args.num_tokens, args.vocab_size);
  const RowLayout layout(args.width);
  const int first_id = static_cast<int>(blockIdx.x) * kIdsPerBlock;
  const int num_ids = min(int{kIdsPerBlock}, args.vocab_size - first_id);
  if (static_cast<int>(threadIdx.x) <= num_ids) {
    starts[threadIdx.x] = scratch.starts[first_id + static_cast<int>(threadIdx.x)];
  }
  __syncthreads();
  const auto row_of = [&](int i) {
    return args.d_table + static_cast<long long>(first_id + i) * args.width;
  };
  for (int i = layout.group; i < num_ids; i += layout.num_groups) {
    if (starts[i] != starts[i + 1]) continue;
    StoreRow(layout, Rows{row_of(i), Element::kFloat, 0}, 0, RowValues<kChunks>{});
  }
  for (int i = 0; i < num_ids; ++i) {
    const long long start = starts[i];
    const long long first_segment = start / kSegment;
    const long long last_segment = (starts[i + 1] - 1LL) / kSegment;
    // Absent, or written by SegmentKernel.
    if (start == starts[i + 1] || first_segment == last_segment) continue;
    RowValues<kChunks> sum{};
    for (long long s = first_segment + layout.group; s <= last_segment;
         s += kInFlight * layout.num_groups) {
      RowValues<kChunks> parts[kInFlight];
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        const long long at = s + j * layout.num_groups;
        parts[j] =
            at <= last_segment
                ? LoadColumns<kChunks>(layout, PartialOf(args, at, start <= at * kSegment ? 0 : 1))
                : RowValues<kChunks>{};
      }
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) Accumulate(sum, parts[j]);
    }
    SumGroups(layout, sum, buffer, row_of(i));
  }
}

// A block owns position t: groups of lanes add its rows over the batch, then each other.
template <int kChunks>
__global__ void __launch_bounds__(kThreads) PositionsKernel(const EmbeddingBackward args) {
  __shared__ float buffer[kThreads * kVector * kChunks];
  const RowLayout layout(args.width);
  RowValues<kChunks> sum{};
  const long long batch_size = args.num_tokens / args.seq_len;
  for (long long b = layout.group; b < batch_size; b += layout.num_groups) {
    Accumulate(sum, LoadGradient<kChunks>(layout, args, b * args.seq_len + blockIdx.x));
  }
  SumGroups(layout, sum, buffer,
            args.d_positions + static_cast<long long>(blockIdx.x) * args.width);
}

template <int kChunks>
int Launch(const EmbeddingBackward& args, CUstream_st* stream) {
  if (args.d_positions != nullptr) {
    PositionsKernel<kChunks><<<static_cast<unsigned>(args.seq_len), kThreads, 0, stream>>>(args);
  }
  if (args.d_table == nullptr) return cudaGetLastError();
  const auto blocks = [](long long items, long long per_block) {
    return static_cast<unsigned>((items + per_block - 1) / per_block);
  };
  // Always the same limits: other threads launch these kernels too.
  constexpr int kMaxSegmentBytes = kThreads * kSegment * static_cast<int>(sizeof(int2));
  cudaError_t status =
      cudaFuncSetAttribute(RankKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kMaxEmbeddingVocabulary * static_cast<int>(sizeof(std::int32_t)));
  if (status == cudaSuccess) {
    status = cudaFuncSetAttribute(SegmentKernel<kChunks>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSegmentBytes);
  }
  if (status != cudaSuccess) {
    cudaGetLastError();  // clears it: the caller gets it as a value
    return status;
  }
  const long long segments = (args.num_tokens + kSegment - 1) / kSegment;
  RankKernel<<<blocks(args.num_tokens, kRankTokens), kThreads,
               static_cast<std::size_t>(args.vocab_size) * sizeof(std::int32_t), stream>>>(args);
  ScanChunksKernel<<<blocks(args.vocab_size, kThreads), kThreads, 0, stream>>>(args);
  ScanTotalsKernel<<<1, 1024, 0, stream>>>(args);
  PlaceKernel<<<blocks(args.num_tokens, kThreads), kThreads, 0, stream>>>(args);
  const int groups = kThreads / LanesFor(args.width);
  SegmentKernel<kChunks>
      <<<blocks(segments, groups), kThreads,
         static_cast<std::size_t>(groups) * kSegment * sizeof(int2), stream>>>(args);
  CombineKernel<kChunks><<<blocks(args.vocab_size, kIdsPerBlock), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

EmbeddingScratchSizes EmbeddingScratch(long long num_tokens, int vocab_size, int width) {
  const long long chunks = (num_tokens + kRankTokens - 1) / kRankTokens;
  const long long segments = (num_tokens + kSegment - 1) / kSegment;
  return {3 * num_tokens + chunks * vocab_size + vocab_size + 1, 2 * segments * width};
}

int LaunchEmbeddingBackward(const EmbeddingBackward& args, CUstream_st* stream) {
  return args.width <= 32 * kVector ? Launch<1>(args, stream) : Launch<2>(args, stream);
}

}  // namespace mixerbench::kernels::fused
