// The token scan, backward. Derivation in dplr.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/dplr/dplr_token_scan.cuh"

namespace mixerbench::kernels::dplr {
namespace {

// The gradients with a row a key, in the order in which they lie in shared memory.
enum RowGradient { kOfQ, kOfK, kOfA, kOfB, kOfDecay, kNumRowGradients };

// What a warp has in shared memory besides the vectors over keys.
template <int kKeys>
struct WarpMemory {
  static constexpr int kWidth = ScanTile<kKeys>::kWidth;

  float v[kChunk][kWidth];
  float d_o[kChunk][kWidth];
  float recalled[kChunk][kWidth];
  float d_beta[kChunk];  // sums over the columns of the warp
  // The states before the tokens of a part, as the lanes hold them. When a token is done its
  // gradients take the place, [kNumRowGradients][kKeys]: sums over the columns of the warp.
  float states[kPart][kStatesPerWarp];

  __device__ void Load(const ScanTile<kKeys>& tile, std::int64_t first, int count) {
    const TokenScanProblem& p = tile.p;
    tile.template LoadValues<3>({v[0], d_o[0], recalled[0]}, {&p.v, &p.d_o, &p.recalled}, first,
                                count);
  }
};

static_assert(kNumRowGradients * kMaxKeys <= kStatesPerWarp);

// Brings `s` from the state before the chunk to that after its first `end` tokens, and leaves the
// states before the tokens from `begin` on in shared memory.
template <int kKeys>
__device__ void Recompute(const ScanTile<kKeys>& tile, const KeyVectors<kKeys>& keys,
                          WarpMemory<kKeys>& memory, int begin, int end,
                          typename ScanTile<kKeys>::State& s) {
  using Tile = ScanTile<kKeys>;
#pragma unroll 1
  for (int t = 0; t < end; ++t) {
    if (t >= begin) tile.StoreTogether(memory.states[t - begin], s);
    typename Tile::Columns v, recalled;
    tile.AllColumns(v, memory.v[t]);
    tile.AllColumns(recalled, memory.recalled[t]);
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
      recalled[c] *= keys.beta[t];
      v[c] *= keys.beta[t];
    }
#pragma unroll
    for (int i = 0; i < Tile::kGroups; ++i) {
      float decay[4], a[4], k[4];
      tile.Rows(decay, keys.decay[t], i);
      tile.Rows(a, keys.a[t], i);
      tile.Rows(k, keys.k[t], i);
#pragma unroll
      for (int j = 0; j < 4; ++j) Step(s[4 * i + j], decay[j], a[j], k[j], recalled, v);
    }
  }
}

// Adds what o of token t gives to the gradient `g` of the state after it, `s`. `w` becomes beta g^T
// a; the gradients of v and beta are stored.
template <int kKeys>
__device__ void AfterToken(const ScanTile<kKeys>& tile, const KeyVectors<kKeys>& keys, int t,
                           std::int64_t token, WarpMemory<kKeys>& memory,
                           const typename ScanTile<kKeys>::State& s,
                           typename ScanTile<kKeys>::State& g, typename ScanTile<kKeys>::Columns& w,
                           float (&d_q)[ScanTile<kKeys>::kGroups]) {
  using Tile = ScanTile<kKeys>;
  typename Tile::Columns d_o, d_v;
  tile.AllColumns(d_o, memory.d_o[t]);
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) w[c] = d_v[c] = 0;
#pragma unroll
  for (int i = 0; i < Tile::kGroups; ++i) {
    float q[4], k[4], a[4];
    float read[4] = {};
    tile.Rows(q, keys.q[t], i);
    tile.Rows(k, keys.k[t], i);
    tile.Rows(a, keys.a[t], i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) {
        float& x = g[4 * i + j][c];
        x = fmaf(q[j], d_o[c], x);
        w[c] = fmaf(a[j], x, w[c]);
        d_v[c] = fmaf(k[j], x, d_v[c]);
        read[j] = fmaf(s[4 * i + j][c], d_o[c], read[j]);
      }
    }
    d_q[i] = tile.p.scale * SumOverValueLanes(read);
  }
  SumOverKeyLanes(w);
  SumOverKeyLanes(d_v);
  if (tile.p.d_beta.rows.data != nullptr) {
    const int column = tile.Column(0);
    const float own = d_v[0] * memory.v[t][column] - w[0] * memory.recalled[t][column];
    const float sum = tile.SumOfColumns(own);
    if (tile.lane == 0) memory.d_beta[t] = sum;
  }
  w[0] *= keys.beta[t];
  SpreadOverKeyLanes(w);
  tile.StoreColumn(tile.p.d_v, token, keys.beta[t] * d_v[0]);
}

// The other gradients of token t, to `sums`, from the state `s` before it; takes `g` to that state.
template <int kKeys>
__device__ void BeforeToken(const ScanTile<kKeys>& tile, const KeyVectors<kKeys>& keys, int t,
                            const WarpMemory<kKeys>& memory,
                            const typename ScanTile<kKeys>::State& s,
                            const typename ScanTile<kKeys>::Columns& w, float* sums,
                            typename ScanTile<kKeys>::State& g) {
  using Tile = ScanTile<kKeys>;
  typename Tile::Columns v, recalled;
  tile.AllColumns(v, memory.v[t]);
  tile.AllColumns(recalled, memory.recalled[t]);
#pragma unroll
  for (int i = 0; i < Tile::kGroups; ++i) {
    float decay[4], b[4];
    float d_k[4] = {}, d_a[4] = {}, d_b[4] = {}, d_decay[4] = {};
    tile.Rows(decay, keys.decay[t], i);
    tile.Rows(b, keys.b[t], i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) {
        float& x = g[4 * i + j][c];
        const float state = s[4 * i + j][c];
        d_k[j] = fmaf(x, v[c], d_k[j]);
        d_a[j] = fmaf(-x, recalled[c], d_a[j]);
        d_b[j] = fmaf(-state, w[c], d_b[j]);
        d_decay[j] = fmaf(x, state, d_decay[j]);
        x = fmaf(-b[j], w[c], decay[j] * x);
      }
    }
    // Sums are those of the first row.
    float* row = sums + tile.Row(4 * i);
    row[kOfK * kKeys] = keys.beta[t] * SumOverValueLanes(d_k);
    row[kOfA * kKeys] = keys.beta[t] * SumOverValueLanes(d_a);
    float of_b = SumOverValueLanes(d_b);
    float of_decay = decay[0] * SumOverValueLanes(d_decay);
    if (tile.p.recalls_decayed) {
      of_decay = fmaf(b[0], of_b, of_decay);
      of_b *= decay[0];
    }
    row[kOfB * kKeys] = of_b;
    row[kOfDecay * kKeys] = of_decay;
  }
}

// One gradient of `count` tokens from `first` on, the sum over the warps in their order. `sums` is
// that of the first token in the first warp.
template <int kKeys>
__device__ void StoreRowGradient(const ScanTile<kKeys>& tile, const TokenRows& x, const float* sums,
                                 std::int64_t first, int count) {
  constexpr int kQuads = kKeys / 4;
  if (x.rows.data == nullptr) return;
  for (int i = static_cast<int>(threadIdx.x); i < count * kQuads; i += tile.num_warps * 32) {
    const int channel = i % kQuads * 4;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int warp = 0; warp < tile.num_warps; ++warp) {
      const float* of_warp = sums + warp * (sizeof(WarpMemory<kKeys>) / sizeof(float)) +
                             i / kQuads * kStatesPerWarp + channel;
      const float4 four = *reinterpret_cast<const float4*>(of_warp);
      sum = make_float4(sum.x + four.x, sum.y + four.y, sum.z + four.z, sum.w + four.w);
    }
    const std::int64_t offset =
        tile.block * tile.p.block_stride + tile.Offset(x, first + i / kQuads);
    StoreFour(x, offset + channel, tile.p.head_k_dim - channel, sum);
  }
}

// That of beta, likewise.
template <int kKeys>
__device__ void StoreBetaGradient(const ScanTile<kKeys>& tile, const WarpMemory<kKeys>* warps,
                                  std::int64_t first, int begin, int end) {
  const TokenRows& x = tile.p.d_beta;
  const int t = begin + static_cast<int>(threadIdx.x);
  if (x.rows.data == nullptr || t >= end) return;
  float sum = 0;
  for (int warp = 0; warp < tile.num_warps; ++warp) sum += warps[warp].d_beta[t];
  StoreOne(x, tile.block * tile.p.beta_block_stride + tile.Offset(x, first + t), sum);
}

// A CTA owns what it has in the forward pass, and takes chunks from the last to the first. Of a
// part of a chunk it computes the states again from that before the chunk, to shared memory, then
// runs the adjoint recurrence backwards, its value in registers, fp32. What a head has once for all
// its columns is summed over lanes, then over warps, in a fixed order; sums over CTAs are the
// caller's.
template <int kKeys>
__global__ void __launch_bounds__(kMaxWarps * 32, 2) BackwardKernel(const TokenScanProblem p) {
  using Tile = ScanTile<kKeys>;
  extern __shared__ __align__(16) char bytes[];
  auto& keys = *reinterpret_cast<KeyVectors<kKeys>*>(bytes);
  auto* warps = reinterpret_cast<WarpMemory<kKeys>*>(bytes + sizeof(keys));
  const Tile tile(p);
  auto& memory = warps[tile.warp];
  const TokenRows* const row_gradients[] = {&p.d_q, &p.d_k, &p.d_a, &p.d_b, &p.d_log_decay};

  typename Tile::State s, g;
  tile.Load(g, p.d_final_state);
  for (std::int64_t n = NumChunks(p.seq_len) - 1; n >= 0; --n) {
    const std::int64_t first = n * kChunk;
    const int count = static_cast<int>(min(p.seq_len - first, std::int64_t{kChunk}));
    device::SyncBlock();
    keys.Load(tile, first, count);
    memory.Load(tile, first, count);
    device::SyncBlock();
#pragma unroll 1
    for (int begin = (count - 1) / kPart * kPart; begin >= 0; begin -= kPart) {
      const int end = min(begin + kPart, count);
      tile.LoadTogether(s, tile.KeptState(n));
      Recompute(tile, keys, memory, begin, end, s);
#pragma unroll 1
      for (int t = end - 1; t >= begin; --t) {
        typename Tile::Columns w;
        float d_q[Tile::kGroups];
        AfterToken(tile, keys, t, first + t, memory, s, g, w, d_q);
        tile.LoadTogether(s, memory.states[t - begin]);
        device::SyncWarp();  // the gradients take its place
        float* sums = memory.states[t - begin];
#pragma unroll
        for (int i = 0; i < Tile::kGroups; ++i) sums[kOfQ * kKeys + tile.Row(4 * i)] = d_q[i];
        BeforeToken(tile, keys, t, memory, s, w, sums, g);
      }
      device::SyncBlock();
#pragma unroll
      for (int i = 0; i < kNumRowGradients; ++i) {
        StoreRowGradient(tile, *row_gradients[i], warps[0].states[0] + i * kKeys, first + begin,
                         end - begin);
      }
      StoreBetaGradient(tile, warps, first, begin, end);
      device::SyncBlock();
    }
  }
  if (p.d_initial_state != nullptr) tile.Store(p.d_initial_state, g);
}

template <int kKeys>
int Run(const TokenScanProblem& p, CUstream_st* stream) {
  const int num_warps = p.tiling().num_warps;
  const std::size_t bytes =
      sizeof(KeyVectors<kKeys>) + sizeof(WarpMemory<kKeys>) * static_cast<unsigned>(num_warps);
  return device::Launch(BackwardKernel<kKeys>, p.NumCtas(), num_warps * 32, bytes, stream, p);
}

}  // namespace

int TokenScanBackward(const TokenScanProblem& p, CUstream_st* stream) {
  return token_scan::WithPaddedKeys(p.head_k_dim,
                                    [&]<int kKeys>() -> int { return Run<kKeys>(p, stream); });
}

}  // namespace mixerbench::kernels::dplr
