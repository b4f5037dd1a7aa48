// Gradient of an embedding table without float atomics: tokens are sorted by id (a stable counting
// sort), the sorted rows are summed in pieces of equal length, and the ids that cross a border of
// pieces get theirs in order. The result does not depend on the launch shape.
//
//   Rank    a block counts the ids of 1024 tokens in shared memory; its warps take turns in order,
//           so that a token's rank among equal ones is its place in the batch
//   Scan    where each block's share of an id starts, and each id among 128 neighbouring ones
//   Place   sorted position -> place in the batch and id; where each id starts
//   Segment a group of lanes sums eight sorted positions, its block then what crosses groups. An id
//           inside goes to d_table, one that crosses the block's border to `partials`
//           [block][at the front or the back]. Further blocks clear absent ids
//   Combine a block adds the parts of an id that starts in one block of positions and ends in
//           another
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused/embedding_device.h"
#include "kernels/fused/row_layout.cuh"
#include "kernels/fused/token_ids.cuh"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kRankTokens = 1024;
constexpr int kScanIds = 128;
constexpr int kGroupTokens = 8;  // sorted positions of a group of lanes, all rows loaded at once
constexpr int kClearIds = 64;    // of a block

__host__ __device__ constexpr int Blocks(long long items, int per_block) {
  return static_cast<int>((items + per_block - 1) / per_block);
}

// Sorted positions of a block.
__host__ __device__ constexpr int BlockTokens(int width) {
  return kThreads / LanesFor(width) * kGroupTokens;
}
constexpr int kMaxBlockTokens = BlockTokens(kVector);

// Views of EmbeddingBackward::indices.
struct Scratch {
  int num_chunks;         // of kRankTokens tokens
  int2* order;            // [N]: place in the batch and id of a sorted position
  std::int32_t* ranks;    // [N]: among equal ids of the same chunk
  std::int32_t* counts;   // [num_chunks, V]: of an id, then where the chunk's share of it starts
  std::int32_t* offsets;  // [V]: where an id starts among its kScanIds
  std::int32_t* totals;   // [V / kScanIds]: tokens of so many ids
  std::int32_t* starts;   // [V + 1]

  __host__ __device__ Scratch(std::int32_t* base, long long num_tokens, int vocab_size)
      : num_chunks(Blocks(num_tokens, kRankTokens)),
        order(reinterpret_cast<int2*>(base)),
        ranks(base + 2 * num_tokens),
        counts(base + 3 * num_tokens),
        offsets(counts + static_cast<long long>(num_chunks) * vocab_size),
        totals(offsets + vocab_size),
        starts(totals + Blocks(vocab_size, kScanIds)) {}

  __device__ explicit Scratch(const EmbeddingBackward& args)
      : Scratch(args.indices, args.num_tokens, args.vocab_size) {}
};

__global__ void __launch_bounds__(kRankTokens) RankKernel(const EmbeddingBackward args) {
  extern __shared__ std::int32_t histogram[];
  const Scratch scratch(args);
  const int thread = static_cast<int>(threadIdx.x);
  const long long n = static_cast<long long>(blockIdx.x) * kRankTokens + thread;
  const int token = n < args.num_tokens ? TokenAt(args.tokens, n, args.vocab_size) : -1;
  for (int i = thread; i < args.vocab_size; i += kRankTokens) histogram[i] = 0;
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
  if (token >= 0) scratch.ranks[n] = seen + before;
  std::int32_t* counts = scratch.counts + static_cast<long long>(blockIdx.x) * args.vocab_size;
  for (int i = thread; i < args.vocab_size; i += kRankTokens) counts[i] = histogram[i];
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
  const Scratch scratch(args);
  const int thread = static_cast<int>(threadIdx.x);
  const int id = static_cast<int>(blockIdx.x) * kScanIds + thread;
  const bool exists = id < args.vocab_size;
  std::int32_t sum = 0;
  for (int chunk = 0; chunk < scratch.num_chunks; chunk += kInFlight) {
    std::int32_t* counts = scratch.counts + static_cast<long long>(chunk) * args.vocab_size + id;
    std::int32_t here[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      here[i] = exists && chunk + i < scratch.num_chunks
                    ? counts[static_cast<long long>(i) * args.vocab_size]
                    : 0;
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (exists && chunk + i < scratch.num_chunks) {
        counts[static_cast<long long>(i) * args.vocab_size] = sum;
      }
      sum += here[i];
    }
  }
  int total = 0;
  int start = WarpPrefix(sum, total);
  if (thread % 32 == 0) warp_totals[thread / 32] = total;
  __syncthreads();
  for (int warp = 0; warp < thread / 32; ++warp) start += warp_totals[warp];
  if (exists) scratch.offsets[id] = start;
  if (thread == kScanIds - 1) scratch.totals[blockIdx.x] = start + sum;
}

__global__ void __launch_bounds__(kThreads) PlaceKernel(const EmbeddingBackward args) {
  __shared__ int bases[Blocks(kMaxEmbeddingVocabulary, kScanIds)];  // of kScanIds ids
  const Scratch scratch(args);
  const int thread = static_cast<int>(threadIdx.x);
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + thread;
  int token = -1;
  int position = 0;  // among the ids that share a base
  if (i < args.num_tokens) {
    token = TokenAt(args.tokens, i, args.vocab_size);
    position = scratch.offsets[token] + scratch.counts[i / kRankTokens * args.vocab_size + token] +
               scratch.ranks[i];
  }
  if (thread < 32) {
    int base = 0;
    const int num_bases = Blocks(args.vocab_size, kScanIds);
    for (int first = 0; first < num_bases; first += 32) {
      const int here = first + thread;
      int total = 0;
      const int start = base + WarpPrefix(here < num_bases ? scratch.totals[here] : 0, total);
      if (here < num_bases) bases[here] = start;
      base += total;
    }
  }
  __syncthreads();
  if (token >= 0) {
    scratch.order[bases[token / kScanIds] + position] = make_int2(static_cast<int>(i), token);
  }
  for (long long id = i; id <= args.vocab_size;
       id += static_cast<long long>(gridDim.x) * kThreads) {
    scratch.starts[id] = id < args.vocab_size ? bases[id / kScanIds] + scratch.offsets[id]
                                              : static_cast<int>(args.num_tokens);
  }
}

// The gradient at place n of the batch.
template <typename T, int kChunks>
__device__ PackedRow<T, kChunks> LoadGradient(const RowLayout& layout,
                                              const EmbeddingBackward& args, long long n) {
  const ConstRows rows{args.d_out, args.d_out_element, args.width};
  return LoadPackedRow<T, kChunks>(layout, rows, n, /*valid=*/true);
}

// Adds it through the mask of the dropout.
template <typename T, int kChunks>
__device__ void Accumulate(const RowLayout& layout, const EmbeddingBackward& args,
                           std::uint64_t seed, const PackedRow<T, kChunks>& row, long long n,
                           RowValues<kChunks>& sum) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (!layout.Active(c)) continue;
    Vector v = row.chunk[c].Unpack();
    ApplyDropout(args.dropout, seed, n * args.width + layout.Column(c), v);
#pragma unroll
    for (int i = 0; i < kVector; ++i) sum.chunk[c].x[i] += v.x[i];
  }
}

template <int kChunks>
__device__ void StoreFloats(const RowLayout& layout, float* target,
                            const RowValues<kChunks>& values) {
  StoreRow(layout, Rows{target, Element::kFloat, 0}, 0, values);
}

__device__ float* TableRow(const EmbeddingBackward& args, int id) {
  return args.d_table + static_cast<long long>(id) * args.width;
}

// Of an id that began before the block (kFront), or that goes on after it.
enum Side { kFront = 0, kBack = 1 };
__device__ float* PartialOf(const EmbeddingBackward& args, long long block, Side side) {
  return args.partials + (2 * block + side) * args.width;
}

// The sorted positions of a block, and one on either side; id -1 where there is none.
struct Entries {
  int2 values[kMaxBlockTokens + 2];

  __device__ int id(int i) const { return values[i + 1].y; }
  __device__ int place(int i) const { return values[i + 1].x; }

  __device__ void Load(const EmbeddingBackward& args, const Scratch& scratch, long long first,
                       int count) {
    for (int i = static_cast<int>(threadIdx.x); i < count + 2; i += kThreads) {
      const long long at = first + i - 1;
      values[i] = at >= 0 && at < args.num_tokens ? scratch.order[at] : make_int2(0, -1);
    }
    __syncthreads();
  }
};

// Clears the rows of absent ids.
template <int kChunks>
__device__ void ClearAbsent(const RowLayout& layout, const EmbeddingBackward& args,
                            const std::int32_t* starts, int first_id) {
  const int last_id = min(first_id + kClearIds, args.vocab_size);
  for (int id = first_id + layout.group; id < last_id; id += layout.num_groups) {
    if (starts[id] == starts[id + 1]) {
      StoreFloats(layout, TableRow(args, id), RowValues<kChunks>{});
    }
  }
}

// Adds what crosses groups, column by column: `borders` [group][first or last id of it].
__device__ void JoinGroups(const EmbeddingBackward& args, const Entries& entries,
                           const float* borders, long long block) {
  const int block_tokens = BlockTokens(args.width);
  const int id_before = entries.id(-1);
  for (int column = static_cast<int>(threadIdx.x); column < args.width; column += kThreads) {
    float sum = 0;  // of the id that goes on after the group
    for (int first = 0; first < block_tokens && entries.id(first) >= 0; first += kGroupTokens) {
      const float* border = borders + first / kGroupTokens * 2 * args.width + column;
      int last = first + kGroupTokens - 1;
      while (entries.id(last) < 0) --last;  // the end of all tokens
      const int front = entries.id(first);
      const int back = entries.id(last);
      const bool goes_on = entries.id(last + 1) == back;
      if (entries.id(first - 1) == front || (front == back && goes_on)) {
        sum += border[0];
        if (front != back || !goes_on) {
          (front == id_before ? PartialOf(args, block, kFront) : TableRow(args, front))[column] =
              sum;
          sum = 0;
        }
      }
      if (front != back && goes_on) sum = border[args.width];
    }
    const int id_last = entries.id(block_tokens - 1);
    if (id_last >= 0 && id_last == entries.id(block_tokens)) {
      PartialOf(args, block, id_last == id_before ? kFront : kBack)[column] = sum;
    }
  }
}

template <typename T, int kChunks>
__global__ void __launch_bounds__(kThreads) SegmentKernel(const EmbeddingBackward args) {
  __shared__ Entries entries;
  __shared__ float borders[2 * kThreads * kVector * kChunks];
  const Scratch scratch(args);
  const RowLayout layout(args.width);
  const long long block = blockIdx.x;
  const int segments = Blocks(args.num_tokens, BlockTokens(args.width));
  if (block >= segments) {
    ClearAbsent<kChunks>(layout, args, scratch.starts,
                         static_cast<int>(block - segments) * kClearIds);
    return;
  }
  const int block_tokens = BlockTokens(args.width);
  entries.Load(args, scratch, block * block_tokens, block_tokens);
  const std::uint64_t seed = DropoutSeed(args.dropout, args.seed);
  const int first = layout.group * kGroupTokens;
  PackedRow<T, kChunks> rows[kGroupTokens];
#pragma unroll
  for (int j = 0; j < kGroupTokens; ++j) {
    // Positions past the end load row 0: a branch would wait for each row before the next.
    rows[j] = LoadGradient<T, kChunks>(layout, args, entries.place(first + j));
  }
  RowValues<kChunks> sum{};
#pragma unroll
  for (int j = 0; j < kGroupTokens; ++j) {
    const int id = entries.id(first + j);
    if (id < 0) break;
    Accumulate(layout, args, seed, rows[j], entries.place(first + j), sum);
    const bool goes_on = entries.id(first + j + 1) == id;
    if (goes_on && j + 1 < kGroupTokens) continue;
    const bool from_front = entries.id(first) == id;
    const bool whole = !goes_on && !(from_front && entries.id(first - 1) == id);
    float* target = whole ? TableRow(args, id)
                          : borders + (2 * layout.group + (from_front ? 0 : 1)) * args.width;
    StoreFloats(layout, target, sum);
    sum = RowValues<kChunks>{};
  }
  __syncthreads();
  JoinGroups(args, entries, borders, block);
}

// A block owns the border behind block `blockIdx.x` of positions.
template <int kChunks>
__global__ void __launch_bounds__(kThreads) CombineKernel(const EmbeddingBackward args) {
  constexpr int kInFlight = kChunks == 1 ? 8 : 4;
  __shared__ float buffer[kThreads * kVector * kChunks];
  const Scratch scratch(args);
  const RowLayout layout(args.width);
  const long long block = blockIdx.x;
  const int block_tokens = BlockTokens(args.width);
  const long long border = (block + 1) * block_tokens;
  const int id = scratch.order[border].y;
  const long long start = scratch.starts[id];
  // Only where the id starts in this block and crosses its border.
  if (start >= border || start < block * block_tokens) return;
  const long long last = (scratch.starts[id + 1] - 1LL) / block_tokens;
  RowValues<kChunks> sum{};
  for (long long b = block + layout.group; b <= last; b += kInFlight * layout.num_groups) {
    RowValues<kChunks> parts[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const long long at = b + j * layout.num_groups;
      parts[j] = LoadColumns<kChunks>(
          layout, PartialOf(args, std::min(at, last), at == block ? kBack : kFront));
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (b + j * layout.num_groups > last) break;
      ForEach<kChunks>([&](int c, int i) { sum.chunk[c].x[i] += parts[j].chunk[c].x[i]; });
    }
  }
  SumGroups(layout, sum, buffer, TableRow(args, id));
}

// A block owns position t: groups of lanes add its rows over the batch, then each other.
template <typename T, int kChunks>
__global__ void __launch_bounds__(kThreads) PositionsKernel(const EmbeddingBackward args) {
  constexpr int kInFlight = 8 / kChunks;
  __shared__ float buffer[kThreads * kVector * kChunks];
  const RowLayout layout(args.width);
  const std::uint64_t seed = DropoutSeed(args.dropout, args.seed);
  const long long batch_size = args.num_tokens / args.seq_len;
  const auto place = [&](long long b) {
    return std::min(b, batch_size - 1) * args.seq_len + blockIdx.x;
  };
  RowValues<kChunks> sum{};
  for (long long b = layout.group; b < batch_size; b += kInFlight * layout.num_groups) {
    PackedRow<T, kChunks> rows[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      rows[j] = LoadGradient<T, kChunks>(layout, args, place(b + j * layout.num_groups));
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const long long at = b + j * layout.num_groups;
      if (at >= batch_size) break;
      Accumulate(layout, args, seed, rows[j], place(at), sum);
    }
  }
  SumGroups(layout, sum, buffer,
            args.d_positions + static_cast<long long>(blockIdx.x) * args.width);
}

template <typename T, int kChunks>
int Launch(const EmbeddingBackward& args, CUstream_st* stream) {
  if (args.d_positions != nullptr) {
    PositionsKernel<T, kChunks><<<static_cast<unsigned>(args.seq_len), kThreads, 0, stream>>>(args);
  }
  if (args.d_table == nullptr) return cudaGetLastError();
  // Always the same limit: other threads launch this kernel too.
  const cudaError_t status =
      cudaFuncSetAttribute(RankKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kMaxEmbeddingVocabulary * static_cast<int>(sizeof(std::int32_t)));
  if (status != cudaSuccess) {
    cudaGetLastError();  // clears it: the caller gets it as a value
    return status;
  }
  const int segments = Blocks(args.num_tokens, BlockTokens(args.width));
  RankKernel<<<Blocks(args.num_tokens, kRankTokens), kRankTokens,
               static_cast<std::size_t>(args.vocab_size) * sizeof(std::int32_t), stream>>>(args);
  ScanKernel<<<Blocks(args.vocab_size, kScanIds), kScanIds, 0, stream>>>(args);
  PlaceKernel<<<Blocks(args.num_tokens, kThreads), kThreads, 0, stream>>>(args);
  SegmentKernel<T, kChunks>
      <<<segments + Blocks(args.vocab_size, kClearIds), kThreads, 0, stream>>>(args);
  if (segments > 1) CombineKernel<kChunks><<<segments - 1, kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

EmbeddingScratchSizes EmbeddingScratch(long long num_tokens, int vocab_size, int width) {
  const long long counts = static_cast<long long>(Blocks(num_tokens, kRankTokens)) * vocab_size;
  return {3 * num_tokens + counts + Blocks(vocab_size, kScanIds) + 2LL * vocab_size + 1,
          2LL * Blocks(num_tokens, BlockTokens(width)) * width};
}

int LaunchEmbeddingBackward(const EmbeddingBackward& args, CUstream_st* stream) {
  const bool narrow = args.d_out_element == Element::kBFloat16;
  if (args.width <= 32 * kVector) {
    return narrow ? Launch<__nv_bfloat16, 1>(args, stream) : Launch<float, 1>(args, stream);
  }
  return narrow ? Launch<__nv_bfloat16, 2>(args, stream) : Launch<float, 2>(args, stream);
}

}  // namespace mixerbench::kernels::fused
