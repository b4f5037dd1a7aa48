// Gradient of an embedding table without float atomics: the rows of tokens sorted by id
// (token_sort) are summed in pieces of equal length, and the ids that cross a border of pieces get
// theirs in order. The result does not depend on the launch shape.
//
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
#include "kernels/fused/token_sort.cuh"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kGroupTokens = 8;  // sorted positions of a group of lanes, all rows loaded at once
constexpr int kClearIds = 64;    // of a block

// Sorted positions of a block.
__host__ __device__ constexpr int BlockTokens(int width) {
  return kThreads / LanesFor(width) * kGroupTokens;
}
template <int kChunks>
constexpr int kMaxBlockTokens = BlockTokens((kChunks - 1) * 32 * kVector + kVector);

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
  StoreRowAs<float>(layout, Rows{target, Element::kFloat, 0}, 0, values, true);
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
  int2* values;  // in shared memory

  __device__ int id(int i) const { return values[i + 1].y; }
  __device__ int place(int i) const { return values[i + 1].x; }

  __device__ void Load(const EmbeddingBackward& args, const SortedTokens& sorted, long long first,
                       int count) const {
    for (int i = static_cast<int>(threadIdx.x); i < count + 2; i += kThreads) {
      const long long at = first + i - 1;
      values[i] = at >= 0 && at < args.num_tokens ? sorted.order[at] : make_int2(0, -1);
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
  __shared__ int2 positions[kMaxBlockTokens<kChunks> + 2];
  const Entries entries{positions};
  __shared__ float borders[2 * kThreads * kVector * kChunks];
  const SortedTokens sorted(args);
  const RowLayout layout(args.width);
  const long long block = blockIdx.x;
  const int segments = Blocks(args.num_tokens, BlockTokens(args.width));
  if (block >= segments) {
    ClearAbsent<kChunks>(layout, args, sorted.starts,
                         static_cast<int>(block - segments) * kClearIds);
    return;
  }
  const int block_tokens = BlockTokens(args.width);
  entries.Load(args, sorted, block * block_tokens, block_tokens);
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
  const SortedTokens sorted(args);
  const RowLayout layout(args.width);
  const long long block = blockIdx.x;
  const int block_tokens = BlockTokens(args.width);
  const long long border = (block + 1) * block_tokens;
  const int id = sorted.order[border].y;
  const long long start = sorted.starts[id];
  // Only where the id starts in this block and crosses its border.
  if (start >= border || start < block * block_tokens) return;
  const long long last = (sorted.starts[id + 1] - 1LL) / block_tokens;
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
  const int status = LaunchTokenSort(args, stream);
  if (status != cudaSuccess) return status;
  const int segments = Blocks(args.num_tokens, BlockTokens(args.width));
  SegmentKernel<T, kChunks>
      <<<segments + Blocks(args.vocab_size, kClearIds), kThreads, 0, stream>>>(args);
  if (segments > 1) CombineKernel<kChunks><<<segments - 1, kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

EmbeddingScratchSizes EmbeddingScratch(long long num_tokens, int vocab_size, int width) {
  return {SortedTokens::Size(num_tokens, vocab_size),
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
