// Gradients of the norm, the dropout, the table and the positions, without float atomics: the rows
// of tokens sorted by id (token_sort) are taken through the norm's backward pass and summed in
// pieces of equal length, and the ids that cross a border of pieces get theirs in order. The result
// does not depend on the launch shape.
//
//   Segment    a group of lanes sums up to sixteen sorted positions, its block then what crosses
//              groups. An id inside goes to d_table, one that crosses the block's border to
//              `partials` [block][at the front or the back]; a block's sums of the gradients of the
//              norm's weights lie behind these
//   Combine    a block adds the parts of an id that starts in one block of positions and ends in
//              another, or those of the norm's weights, or serves ids that are absent
//   Positions  a block owns a position of the sequence
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <climits>

#include "kernels/embedding/embedding_cuda.h"
#include "kernels/embedding/embedding_rows.cuh"
#include "kernels/embedding/token_sort.cuh"
#include "kernels/norm/norm_rows.cuh"

namespace mixerbench::kernels {
namespace {

// Sorted positions of a group of lanes: few enough for so many blocks, up to a limit.
constexpr int kMinSegments = 256;
constexpr int kMaxGroupTokens = 16;
constexpr int kMaxBlockTokens = 1024;
constexpr int kNormWeights = 2;
constexpr int kSumColumns = 32;  // of a block that adds gradients of the norm's weights
constexpr int kAbsentIds = 4;    // of a group of lanes that looks for absent ones

// How sorted positions are cut: by the sizes alone.
struct Cut {
  int group_tokens, block_tokens, num_segments;

  template <typename Layout>
  static Cut Of(const EmbeddingSizes& sizes) {
    const int groups = kThreads / Layout::LanesOf(sizes.width);
    const int group_tokens = std::clamp(Blocks(sizes.num_tokens, kMinSegments * groups), 1,
                                        std::min(kMaxGroupTokens, kMaxBlockTokens / groups));
    return {group_tokens, groups * group_tokens, Blocks(sizes.num_tokens, groups * group_tokens)};
  }
};

// Of an id that began before the block (kFront), or that goes on after it.
enum Side { kFront = 0, kBack = 1 };
__device__ float* PartialOf(const EmbeddingBackward& args, long long block, Side side) {
  return args.partials + (2 * block + side) * args.sizes.width;
}

// Gradients of the norm's weights from a block, [kNormWeights,width].
__device__ float* WeightPartialOf(const EmbeddingBackward& args, int num_segments,
                                  long long block) {
  return args.partials + (2LL * num_segments + kNormWeights * block) * args.sizes.width;
}

// Rows of the table's gradient: `shared` is what LoadShared gave, `sum` what the dropout keeps of
// the gradients of the id's tokens.
template <int kChunks, typename Layout>
struct TableRows {
  RowReader<float, kChunks, Layout> shared;
  RowWriter<float, kChunks, Layout> rows;
  float scale;

  __device__ TableRows(const Layout& layout, const EmbeddingBackward& args)
      : shared(layout, {args.d_shared, Element::kFloat, layout.width}, args.sizes.vocab_size),
        rows(layout, {args.d_table, Element::kFloat, layout.width}, args.sizes.vocab_size),
        scale(args.dropout_scale) {}

  __device__ RowValues<kChunks> LoadShared(int id) const { return shared.Load(id).Unpack(); }

  __device__ void Store(int id, RowValues<kChunks> row, const RowValues<kChunks>& sum) const {
    ForEach<kChunks>([&](int c, int i) { row.chunk[c].x[i] += sum.chunk[c].x[i] * scale; });
    rows.Store(id, row);
  }
};

// The sorted positions of a block, and one on either side; id -1 where there is none.
struct Entries {
  int2* values;  // in shared memory

  __device__ int id(int i) const { return values[i + 1].y; }
  __device__ int place(int i) const { return values[i + 1].x; }

  __device__ void Load(const SortedTokens& sorted, long long num_tokens, long long first,
                       int count) const {
    for (int i = static_cast<int>(threadIdx.x); i < count + 2; i += kThreads) {
      const long long at = first + i - 1;
      values[i] = at >= 0 && at < num_tokens ? sorted.order[at] : make_int2(INT_MAX, -1);
    }
  }
};

// What is read of a token; zeros where there is none.
template <typename T, int kChunks>
struct TokenRow {
  PackedRow<T, kChunks> stream, d_stream, d_normalised;
  float2 statistics;
  unsigned kept[kChunks];  // bits of the dropout's mask
};

template <typename T, int kChunks, typename Layout>
struct TokenReader {
  RowReader<T, kChunks, Layout> stream, d_stream, d_normalised;
  const EmbeddingBackward& args;
  int num_tokens;

  __device__ TokenReader(const Layout& layout, const EmbeddingBackward& backward)
      : stream(layout, {backward.stream, backward.element, layout.width},
               static_cast<int>(backward.sizes.num_tokens)),
        d_stream(layout, backward.d_stream, stream.limit),
        d_normalised(layout, backward.d_normalised, stream.limit),
        args(backward),
        num_tokens(stream.limit) {}

  __device__ TokenRow<T, kChunks> Load(int place) const {
    const Layout& layout = stream.layout;
    const bool valid = place < num_tokens;
    TokenRow<T, kChunks> row{
        stream.Load(place), d_stream.Load(place), d_normalised.Load(place),
        valid ? reinterpret_cast<const float2*>(args.statistics)[place] : make_float2(0, 0)};
    const auto* mask = args.kept + static_cast<long long>(place) * (layout.width / kVector);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const bool has_mask = valid && args.kept != nullptr && layout.Active(c);
      row.kept[c] = has_mask ? mask[layout.Column(c) / kVector] : ~0u;
    }
    return row;
  }
};

// Adds up the id that is the last of this group and goes on after it, if it begins here: `borders`
// [group][first or last id of it] holds what each group has of the ids that cross its border.
template <int kChunks, typename Layout>
__device__ void JoinGroups(const Layout& layout, const EmbeddingBackward& args, const Cut& cut,
                           const TableRows<kChunks, Layout>& table, const SortedTokens& sorted,
                           const Entries& entries, const float* borders) {
  const int first = layout.group * cut.group_tokens;
  const int id = entries.id(first + cut.group_tokens - 1);
  if (id < 0 || entries.id(first + cut.group_tokens) != id) return;  // ends here
  const bool from_front = entries.id(first) == id;
  if (layout.group > 0 && from_front && entries.id(first - 1) == id) return;  // began earlier
  const int end = sorted.starts[id + 1] - static_cast<int>(blockIdx.x) * cut.block_tokens;
  const int last_group = (min(end, cut.block_tokens) - 1) / cut.group_tokens;
  const auto border = [&](int group, Side side) {
    return LoadColumns<kChunks>(layout, borders + (2 * group + side) * layout.width);
  };
  RowValues<kChunks> sum = border(layout.group, from_front ? kFront : kBack);
#pragma unroll 4
  for (int group = layout.group + 1; group <= last_group; ++group) {
    sum = Sum(sum, border(group, kFront));
  }
  if (layout.group == 0 && from_front && entries.id(-1) == id) {
    StoreColumns(layout, PartialOf(args, blockIdx.x, kFront), sum);
  } else if (end > cut.block_tokens) {
    StoreColumns(layout, PartialOf(args, blockIdx.x, kBack), sum);
  } else {
    table.Store(id, table.LoadShared(id), sum);
  }
}

// A block owns sorted positions. The reads of a token are under way while the one before it is
// computed; the two change places instead of being copied.
template <typename T, int kChunks, typename Layout>
__global__ void __launch_bounds__(kThreads, kChunks == 1 ? 2 : 1)
    SegmentKernel(const EmbeddingBackward args, const Cut cut) {
  __shared__ int2 positions[kMaxBlockTokens + 2];
  __shared__ SharedColumns<kChunks, 1> columns;
  __shared__ __align__(16) float borders[kNormWeights * kThreads * kVector * kChunks];
  const Entries entries{positions};
  const Layout layout(args.sizes.width);
  const SortedTokens sorted(args);
  const int num_tokens = static_cast<int>(args.sizes.num_tokens);
  entries.Load(sorted, num_tokens, static_cast<long long>(blockIdx.x) * cut.block_tokens,
               cut.block_tokens);
  columns.Fill(layout, {args.norm.weight});
  __syncthreads();

  const TokenReader<T, kChunks, Layout> reader(layout, args);
  const RowWriter<T, kChunks, Layout> embedded_rows(
      layout, Rows{args.d_embedded, args.element, layout.width}, num_tokens);
  const TableRows<kChunks, Layout> table(layout, args);
  const int first = layout.group * cut.group_tokens;
  const bool centre = args.norm.bias != nullptr;
  RowValues<kChunks> sum{};
  NormGradients<kChunks> d_norm;
  const auto visit = [&](int j, const TokenRow<T, kChunks>& in, TokenRow<T, kChunks>& next) {
    // No branch: it would wait for what is under way.
    next = reader.Load(j + 1 < cut.group_tokens ? entries.place(first + j + 1) : INT_MAX);
    const int id = entries.id(first + j);
    const int place = entries.place(first + j);
    const bool goes_on = entries.id(first + j + 1) == id;
    const bool from_front = entries.id(first) == id;
    const bool whole = id >= 0 && !goes_on && !(from_front && entries.id(first - 1) == id);
    const RowValues<kChunks> shared = table.LoadShared(whole ? id : INT_MAX);

    asm volatile("" ::: "memory");  // else the weights are loaded once, to registers
    const RowValues<kChunks> x =
        StandardiseBy(in.stream.Unpack(), in.statistics.x, in.statistics.y);
    RowValues<kChunks> d_row = in.d_stream.Unpack();
    AddNormBackward(layout, x, in.statistics.y, in.d_normalised.Unpack(), columns.Load(layout, 0),
                    centre, d_norm, d_row);
    ForEach<kChunks>([&](int c, int i) {
      if ((in.kept[c] >> i & 1) == 0) d_row.chunk[c].x[i] = 0;
    });
    sum = Sum(sum, d_row);
    if (args.d_embedded != nullptr) {
      ForEach<kChunks>([&](int c, int i) { d_row.chunk[c].x[i] *= args.dropout_scale; });
      embedded_rows.Store(place, d_row);
    }
    if (id < 0 || (goes_on && j + 1 < cut.group_tokens)) return;
    if (whole) {
      table.Store(id, shared, sum);
    } else if (!goes_on && layout.group == 0) {
      StoreColumns(layout, PartialOf(args, blockIdx.x, kFront), sum);
    } else {
      const Side side = from_front ? kFront : kBack;
      StoreColumns(layout, borders + (2 * layout.group + side) * layout.width, sum);
    }
    sum = RowValues<kChunks>{};
  };
  TokenRow<T, kChunks> even = reader.Load(entries.place(first));
  TokenRow<T, kChunks> odd;
  for (int j = 0; j < cut.group_tokens; j += 2) {
    visit(j, even, odd);
    if (j + 1 < cut.group_tokens) visit(j + 1, odd, even);
  }
  __syncthreads();
  JoinGroups(layout, args, cut, table, sorted, entries, borders);
  SumGroupsTogether(layout, {d_norm.weight, d_norm.bias}, borders,
                    WeightPartialOf(args, cut.num_segments, blockIdx.x));
}

// Adds the parts of kSumColumns columns of the gradients of the norm's weights.
__device__ void SumWeightPartials(const EmbeddingBackward& args, int num_segments, int first_column,
                                  float* buffer) {
  constexpr int kStrands = kThreads / kSumColumns;
  const int num_columns = kNormWeights * args.sizes.width;
  const int strand = static_cast<int>(threadIdx.x) / kSumColumns;
  const int column = first_column + static_cast<int>(threadIdx.x) % kSumColumns;
  float sum = 0;
  if (column < num_columns) {
    const float* parts = WeightPartialOf(args, num_segments, 0);
#pragma unroll 8
    for (int part = strand; part < num_segments; part += kStrands) {
      sum += parts[static_cast<long long>(part) * num_columns + column];
    }
  }
  buffer[threadIdx.x] = sum;
  __syncthreads();
  if (strand != 0 || column >= num_columns) return;
  for (int s = 1; s < kStrands; ++s) sum += buffer[s * kSumColumns + threadIdx.x];
  args.d_weights[column] = sum;
}

// The gradients of rows of absent ids, kAbsentIds a group of lanes from `first_id` on.
template <int kChunks, typename Layout>
__device__ void StoreAbsent(const Layout& layout, const EmbeddingBackward& args,
                            const SortedTokens& sorted, int first_id) {
  const TableRows<kChunks, Layout> table(layout, args);
  int ids[kAbsentIds];
  RowValues<kChunks> shared[kAbsentIds];
#pragma unroll
  for (int j = 0; j < kAbsentIds; ++j) {
    const int id = first_id + j * layout.num_groups + layout.group;
    const bool is_absent = id < args.sizes.vocab_size && sorted.starts[id] == sorted.starts[id + 1];
    ids[j] = is_absent ? id : INT_MAX;
  }
#pragma unroll
  for (int j = 0; j < kAbsentIds; ++j) shared[j] = table.LoadShared(ids[j]);
#pragma unroll
  for (int j = 0; j < kAbsentIds; ++j) table.Store(ids[j], shared[j], RowValues<kChunks>{});
}

// A block owns the border behind block `blockIdx.x` of positions, or some of the norm's weights, or
// some ids, of which it serves those that are absent.
template <int kChunks, typename Layout>
__global__ void __launch_bounds__(kThreads)
    CombineKernel(const EmbeddingBackward args, const Cut cut) {
  constexpr int kInFlight = kChunks == 1 ? 8 : 4;
  __shared__ __align__(16) float buffer[kThreads * kVector * kChunks];
  const SortedTokens sorted(args);
  const Layout layout(args.sizes.width);
  const int block = static_cast<int>(blockIdx.x);
  const int other = block - (cut.num_segments - 1);
  if (other >= 0) {
    const int num_sums = Blocks(kNormWeights * layout.width, kSumColumns);
    if (other < num_sums) {
      SumWeightPartials(args, cut.num_segments, other * kSumColumns, buffer);
    } else {
      StoreAbsent<kChunks>(layout, args, sorted,
                           (other - num_sums) * kAbsentIds * layout.num_groups);
    }
    return;
  }
  const long long border = (block + 1LL) * cut.block_tokens;
  const int id = sorted.order[border].y;
  const long long start = sorted.starts[id];
  // Only where the id starts in this block and crosses its border.
  if (start >= border || start < border - cut.block_tokens) return;
  const long long last = (sorted.starts[id + 1] - 1LL) / cut.block_tokens;
  RowValues<kChunks> sum{};
  for (long long b = block + layout.group; b <= last; b += kInFlight * layout.num_groups) {
    RowValues<kChunks> parts[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const long long at = b + j * layout.num_groups;
      parts[j] = LoadColumns<kChunks>(layout,
                                      PartialOf(args, min(at, last), at == block ? kBack : kFront));
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (b + j * layout.num_groups <= last) sum = Sum(sum, parts[j]);
    }
  }
  const long long row = static_cast<long long>(id) * layout.width;
  ForEachGroupSum(layout, sum, buffer, [&](int column, float value) {
    const float shared = args.d_shared != nullptr ? args.d_shared[row + column] : 0;
    args.d_table[row + column] = shared + value * args.dropout_scale;
  });
}

// A block owns position t: groups of lanes add its rows over the batch, then each other.
template <typename T, int kChunks, typename Layout>
__global__ void __launch_bounds__(kThreads) PositionsKernel(const EmbeddingBackward args) {
  constexpr int kInFlight = 8 / kChunks;
  __shared__ __align__(16) float buffer[kThreads * kVector * kChunks];
  const Layout layout(args.sizes.width);
  const int num_tokens = static_cast<int>(args.sizes.num_tokens);
  const RowReader<T, kChunks, Layout> reader(
      layout, ConstRows{args.d_embedded, args.element, layout.width}, num_tokens);
  const long long step = static_cast<long long>(layout.num_groups) * args.sizes.seq_len;
  RowValues<kChunks> sum{};
  for (long long n = static_cast<long long>(layout.group) * args.sizes.seq_len + blockIdx.x;
       n < num_tokens; n += kInFlight * step) {
    PackedRow<T, kChunks> rows[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const long long at = n + j * step;
      rows[j] = reader.Load(at < num_tokens ? static_cast<int>(at) : INT_MAX);
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) sum = Sum(sum, rows[j].Unpack());
  }
  SumGroups(layout, sum, buffer,
            args.d_positions + static_cast<long long>(blockIdx.x) * layout.width);
}

template <typename T, int kChunks, typename Layout>
int Launch(const EmbeddingBackward& args, CUstream_st* stream) {
  const EmbeddingSizes& sizes = args.sizes;
  const int status = LaunchTokenSort(args, stream);
  if (status != cudaSuccess) return status;
  const Cut cut = Cut::Of<Layout>(sizes);
  SegmentKernel<T, kChunks, Layout>
      <<<static_cast<unsigned>(cut.num_segments), kThreads, 0, stream>>>(args, cut);
  const int others =
      Blocks(kNormWeights * sizes.width, kSumColumns) +
      Blocks(sizes.vocab_size, kAbsentIds * (kThreads / Layout::LanesOf(sizes.width)));
  CombineKernel<kChunks, Layout>
      <<<static_cast<unsigned>(cut.num_segments - 1 + others), kThreads, 0, stream>>>(args, cut);
  if (args.d_positions != nullptr) {
    PositionsKernel<T, kChunks, Layout>
        <<<static_cast<unsigned>(sizes.seq_len), kThreads, 0, stream>>>(args);
  }
  return cudaGetLastError();
}

}  // namespace

EmbeddingScratchSizes EmbeddingScratch(const EmbeddingSizes& sizes) {
  EmbeddingScratchSizes scratch{.indices = SortedTokens::Size(sizes.num_tokens, sizes.vocab_size)};
  DispatchEmbedding<1>(
      Element::kFloat, sizes.width, [&]<typename T, int kChunks, typename Layout>() {
        scratch.floats = (2LL + kNormWeights) * Cut::Of<Layout>(sizes).num_segments * sizes.width;
      });
  return scratch;
}

int LaunchEmbeddingBackward(const EmbeddingBackward& args, CUstream_st* stream) {
  int status = cudaSuccess;
  DispatchEmbedding<1>(args.element, args.sizes.width,
                       [&]<typename T, int kChunks, typename Layout>() {
                         status = Launch<T, kChunks, Layout>(args, stream);
                       });
  return status;
}

}  // namespace mixerbench::kernels
