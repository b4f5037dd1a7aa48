// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/query_reader.cuh"

namespace mixerbench::kernels::softmax_attention {
namespace {

// Sequences of any length. Block: 64 queries of one (b, h), a warp 16 of them; grid B H tiles,
// tiles with many keys first. It scans the tiles of keys up to its own, the next one arrives during
// the products of this one. Shared memory: q, two stages of k and v and of their decays.
// Deterministic.
template <int kD, bool kDrops, bool kHasTerms>
__global__ void __launch_bounds__(kThreads) TiledForwardKernel(const AttentionProblem p) {
  constexpr int kTileSize = kTile * device::PaddedRow(kD);
  extern __shared__ __align__(16) char shared_bytes[];
  Element* const q_tile = reinterpret_cast<Element*>(shared_bytes);
  Element* const stages = q_tile + kTileSize;  // k, v, k, v
  const KeyDecays<kHasTerms> decays = {reinterpret_cast<float2*>(stages + 4 * kTileSize)};

  const auto num_rows = static_cast<unsigned>(p.batch_size * p.num_heads);
  const std::int64_t tile = NumTiles(p) - 1 - blockIdx.x / num_rows;
  const Head head(p, blockIdx.x % num_rows);
  const int warp = device::WarpId();
  const Rows k_rows(p.k, head), v_rows(p.v, head);
  const auto load = [&](std::int64_t j) {
    Element* stage = stages + j % 2 * 2 * kTileSize;
    CopyTile<kD, kThreads>(stage, k_rows, j * kTile, p.seq_len);
    CopyTile<kD, kThreads>(stage + kTileSize, v_rows, j * kTile, p.seq_len);
    decays.Load(p, head, j);
    device::CommitCopies();
  };
  const std::int64_t first_tile = FirstVisibleTile<kHasTerms>(p, tile * kTile);
  CopyTile<kD, kThreads>(q_tile, Rows(p.q, head), tile * kTile, p.seq_len);
  load(first_tile);

  const float scale = p.scale * kLog2E;
  const Element* const own = q_tile + warp * 16 * device::PaddedRow(kD);
  const DropoutDraws<kDrops> draws(p, head.row);
  const QueryTerms<kHasTerms> terms(p, head, tile * kTile + warp * 16);
  QueryReader<kD> reader;
  const auto visit = [&](std::int64_t j, auto is_diagonal) {
    constexpr bool kIsDiagonal = decltype(is_diagonal)::value;
    const std::uint32_t dropped = draws.OfKeys(tile * 4 + warp, j * 4);
    device::WaitForBlockCopies();
    if (!kIsDiagonal) load(j + 1);
    const Element* k_tile = stages + j % 2 * 2 * kTileSize;
    reader.template Read<kIsDiagonal, kDrops>(
        own, k_tile, k_tile + kTileSize, warp, kHasTerms ? 1 : scale, dropped, [&](auto& scores) {
          terms.Apply(p, scores, scale, decays.Tile(j), warp, static_cast<int>(tile - j) * kTile);
        });
  };
  for (std::int64_t j = first_tile; j < tile; ++j) visit(j, std::false_type());
  visit(tile, std::true_type());
  reader.Store(p, head, tile * kTile + warp * 16);
}

}  // namespace

int TiledForward(const AttentionProblem& problem, CUstream_st* stream) {
  return ForKernel(problem, [&]<int kD, bool kDrops, bool kHasTerms>() {
    constexpr std::size_t kBytes =
        5 * kTile * device::PaddedRow(kD) * sizeof(Element) + KeyDecays<kHasTerms>::kBytes;
    return device::Launch(TiledForwardKernel<kD, kDrops, kHasTerms>,
                          problem.batch_size * problem.num_heads * NumTiles(problem), kThreads,
                          kBytes, stream, problem);
  });
}

}  // namespace mixerbench::kernels::softmax_attention
