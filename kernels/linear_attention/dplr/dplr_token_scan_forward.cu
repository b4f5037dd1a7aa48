// The token scan, forward. Derivation in dplr.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/dplr/dplr_token_scan.cuh"

namespace mixerbench::kernels::dplr {
namespace {

template <int kKeys>
constexpr int kValues = ScanTile<kKeys>::kWidth* kChunk;  // of a warp

// What b recalls, in all columns of the lane.
template <int kKeys>
__device__ void Recall(const ScanTile<kKeys>& tile, const float* b,
                       const typename ScanTile<kKeys>::State& s,
                       typename ScanTile<kKeys>::Columns& recalled) {
  using Tile = ScanTile<kKeys>;
#pragma unroll
  for (float& x : recalled) x = 0;
#pragma unroll
  for (int i = 0; i < Tile::kGroups; ++i) {
    float rows[4];
    tile.Rows(rows, b, i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) {
        recalled[c] = fmaf(rows[j], s[4 * i + j][c], recalled[c]);
      }
    }
  }
  SumOverKeyLanes(recalled);
  SpreadOverKeyLanes(recalled);
}

// Takes token t of the chunk; returns what its query reads of Column(0).
template <int kKeys>
__device__ float Advance(const ScanTile<kKeys>& tile, const KeyVectors<kKeys>& keys, int t,
                         const typename ScanTile<kKeys>::Columns& recalled,
                         const typename ScanTile<kKeys>::Columns& v,
                         typename ScanTile<kKeys>::State& s) {
  using Tile = ScanTile<kKeys>;
  typename Tile::Columns read = {};
  typename Tile::Columns erased, written;
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) {
    erased[c] = keys.beta[t] * recalled[c];
    written[c] = keys.beta[t] * v[c];
  }
#pragma unroll
  for (int i = 0; i < Tile::kGroups; ++i) {
    float decay[4], a[4], k[4], q[4];
    tile.Rows(decay, keys.decay[t], i);
    tile.Rows(a, keys.a[t], i);
    tile.Rows(k, keys.k[t], i);
    tile.Rows(q, keys.q[t], i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float(&row)[Tile::kColumns] = s[4 * i + j];
      Step(row, decay[j], a[j], k[j], erased, written);
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) read[c] = fmaf(q[j], row[c], read[c]);
    }
  }
  SumOverKeyLanes(read);
  return read[0];
}

// A CTA owns up to 4 x kWidth columns of one head, a warp kWidth of them for all tokens, a thread
// 32 elements of the state in registers, fp32. Tokens come to shared memory as fp32, a chunk at a
// time; no alignment beyond that of the numbers. Deterministic.
template <int kKeys>
__global__ void __launch_bounds__(kMaxWarps * 32, 4) ForwardKernel(const TokenScanProblem p) {
  using Tile = ScanTile<kKeys>;
  extern __shared__ __align__(16) char memory[];
  // Then the values of every warp, [kChunk][kWidth].
  auto& keys = *reinterpret_cast<KeyVectors<kKeys>*>(memory);
  const Tile tile(p);
  float* values = reinterpret_cast<float*>(memory + sizeof(keys)) + tile.warp * kValues<kKeys>;

  typename Tile::State s;
  tile.Load(s, p.initial_state);
  for (std::int64_t n = 0; n < NumChunks(p.seq_len); ++n) {
    const std::int64_t first = n * kChunk;
    const int count = static_cast<int>(min(p.seq_len - first, std::int64_t{kChunk}));
    device::SyncBlock();
    keys.Load(tile, first, count);
    tile.template LoadValues<1>({values}, {&p.v}, first, count);
    device::SyncBlock();
    if (p.states != nullptr) tile.StoreTogether(tile.KeptState(n), s);
    for (int t = 0; t < count; ++t) {
      typename Tile::Columns v, recalled;
      Recall<kKeys>(tile, keys.b[t], s, recalled);
      if (p.states != nullptr) tile.StoreColumn(p.recalled, first + t, recalled[0]);
      tile.AllColumns(v, values + t * Tile::kWidth);
      tile.StoreColumn(p.o, first + t, Advance<kKeys>(tile, keys, t, recalled, v, s));
    }
  }
  tile.Store(p.final_state, s);
}

template <int kKeys>
int Run(const TokenScanProblem& p, CUstream_st* stream) {
  const int num_warps = p.tiling().num_warps;
  const std::size_t bytes =
      sizeof(KeyVectors<kKeys>) + sizeof(float) * kValues<kKeys> * static_cast<unsigned>(num_warps);
  return device::Launch(ForwardKernel<kKeys>, p.NumCtas(), num_warps * 32, bytes, stream, p);
}

}  // namespace

int TokenScanForward(const TokenScanProblem& p, CUstream_st* stream) {
  return token_scan::WithPaddedKeys(p.head_k_dim,
                                    [&]<int kKeys>() -> int { return Run<kKeys>(p, stream); });
}

}  // namespace mixerbench::kernels::dplr
