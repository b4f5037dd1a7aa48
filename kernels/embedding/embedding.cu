// Embedding look-up with positions and dropout, and the norm of the result. A group of lanes owns a
// token at a time and keeps its row in registers (row_layout.cuh) while the look-up of the next
// one is under way. fp32; the norm is that of the stream as it is stored.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/embedding/embedding_cuda.h"
#include "kernels/embedding/embedding_rows.cuh"
#include "kernels/norm/norm_rows.cuh"

namespace mixerbench::kernels {
namespace {

// All at work at once on a GPU of 132 processors, each for many rows.
constexpr int kBlocksPerProcessor = 3;
constexpr int kMaxBlocks = 132 * kBlocksPerProcessor;

// Multiplies eight elements by their factors, those of `block`. Returns a bit for each, set where
// it is kept. Compares in floating point, whose units have less to do here than those of integers:
// 0x4b000000 + x is the float 2^23 + x, and all differences are exact.
__device__ unsigned ApplyDropout(DropoutRule rule, const DropoutKeys& keys, std::uint64_t block,
                                 Vector& v) {
  static_assert(kDropoutBlock == kVector && kDropoutBits == 16);
  const PhiloxBlock bits = DropoutBits(keys, block);
  const float below = 0x1p23f + static_cast<float>(rule.threshold) - 1;
  float kept = 0;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const std::uint32_t x = __byte_perm(bits.words[i / 2], 0x4b00, i % 2 == 0 ? 0x5410 : 0x5432);
    const float is_kept = __saturatef(__uint_as_float(x) - below);
    v.x[i] *= rule.scale * is_kept;
    kept += is_kept * static_cast<float>(1 << i);
  }
  return static_cast<unsigned>(kept);
}

template <typename T, int kChunks, typename Layout>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor)
    ForwardKernel(const EmbeddingForward args) {
  __shared__ SharedColumns<kChunks, 2> columns;
  __shared__ DropoutKeys keys;
  const EmbeddingSizes& sizes = args.sizes;
  const Layout layout(sizes.width);
  RowCursor cursor(layout, sizes.num_tokens);
  const auto token_at = [&](int n) {
    return TokenAt(args.tokens, min(n, cursor.num_rows - 1), sizes.vocab_size);
  };
  const RowReader<float, kChunks, Layout> table(
      layout, ConstRows{args.table, Element::kFloat, sizes.width}, sizes.vocab_size);
  const RowReader<float, kChunks, Layout> positions(
      layout, ConstRows{args.positions, Element::kFloat, sizes.width}, sizes.seq_len);
  const Rows stream{args.stream, args.element, sizes.width};
  const Rows normalised{args.normalised, args.element, sizes.width};
  const RowWriter<T, kChunks, Layout> stream_rows(layout, stream, cursor.num_rows);
  const RowWriter<T, kChunks, Layout> normalised_rows(layout, normalised, cursor.num_rows);
  PackedRow<float, kChunks> next = table.Load(token_at(cursor.row));
  int next_token = token_at(cursor.row + cursor.step);
  columns.Fill(layout, {args.norm.weight, args.norm.bias});
  const bool drops = args.dropout.threshold > 0;
  if (threadIdx.x == 0) keys = MakeDropoutKeys(drops ? static_cast<std::uint64_t>(*args.seed) : 0);
  __syncthreads();
  for (; !cursor.IsWarpDone(); cursor.row += cursor.step) {
    RowValues<kChunks> row = next.Unpack();
    next = table.Load(next_token);
    next_token = token_at(cursor.row + 2 * cursor.step);
    const bool valid = cursor.row < cursor.num_rows;
    if (args.positions != nullptr) {
      row = Sum(row, positions.Load(cursor.row % sizes.seq_len).Unpack());
    }
    if (drops) {
      const long long first_vector = static_cast<long long>(cursor.row) * (sizes.width / kVector);
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const long long vector = first_vector + layout.Column(c) / kVector;
        const unsigned kept =
            ApplyDropout(args.dropout, keys, static_cast<std::uint64_t>(vector), row.chunk[c]);
        if (args.kept != nullptr && valid && layout.Active(c)) {
          args.kept[vector] = static_cast<std::uint8_t>(kept);
        }
      }
    }
    const auto packed = PackRow<T>(row);
    stream_rows.Store(cursor.row, packed);
    const auto norm =
        Standardise(layout, packed.Unpack(), args.norm.bias != nullptr, args.norm.eps);
    normalised_rows.Store(
        cursor.row, Affine<kChunks>{columns.Load(layout, 0), columns.Load(layout, 1)}(norm.x));
    if (valid && args.statistics != nullptr && layout.lane == 0) {
      reinterpret_cast<float2*>(args.statistics)[cursor.row] = make_float2(norm.mean, norm.scale);
    }
  }
}

}  // namespace

int LaunchEmbeddingForward(const EmbeddingForward& args, CUstream_st* stream) {
  const EmbeddingSizes& sizes = args.sizes;
  DispatchEmbedding<2>(args.element, sizes.width, [&]<typename T, int kChunks, typename Layout>() {
    const int tokens_per_block = kThreads / Layout::LanesOf(sizes.width);
    const int grid = std::min(Blocks(sizes.num_tokens, tokens_per_block), kMaxBlocks);
    ForwardKernel<T, kChunks, Layout><<<static_cast<unsigned>(grid), kThreads, 0, stream>>>(args);
  });
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels
