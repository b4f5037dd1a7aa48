// The token scan, backward. Derivation in sila.md.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/sila/sila_token_scan.cuh"

namespace mixerbench::kernels::sila {
namespace {

// The gates of a token and what is known of their slopes.
struct Gates {
  float beta, gamma;
  float erase;         // decay of what is erased
  float beta_slope;    // of beta by its logit
  float forget_slope;  // of gamma by its logit
};

// What the CTA has in shared memory. After it the values, and the states before the tokens of a
// part, [tokens of it][num_warps][kStatesPerWarp], as the lanes hold them.
template <int kKeys>
struct alignas(16) TokenMemory {
  Pair sums[2 * MaxWarps(kKeys)];
  float k[kChunk][kKeys];
  float q[kChunk][kKeys];
  Pair weights[kMaxValues];  // of what is recalled, in the write gate and the forget gate
  Gates gates[kChunk];

  __device__ void LoadWeights(const TokenScanProblem& p, const Head& head) {
    for (int i = static_cast<int>(threadIdx.x); i < kMaxValues; i += static_cast<int>(blockDim.x)) {
      weights[i] = MemoryWeights(p, head, i);
    }
  }
};

// Vectors over values of a chunk, [kChunk][width] each.
struct Values {
  float* v;
  float* d_o;
  float* recalled;
  int width;

  __device__ Values(float* memory, int values)
      : v(memory), d_o(v + kChunk * values), recalled(d_o + kChunk * values), width(values) {}
  __device__ float* end() const { return recalled + kChunk * width; }
};

// Where the warp has its part of the state before the i-th token of a part.
template <int kKeys>
__device__ float* StateInPart(const StateTile<kKeys>& tile, float* states, int i) {
  return states + (i * tile.num_warps + tile.warp) * kStatesPerWarp;
}

__device__ Gates GatesOf(const TokenScanProblem& p, const Head& head, std::int64_t token) {
  const float write_logit = *head.At<float>(p.whole_write_logit, token);
  const float forget_logit = *head.At<float>(p.whole_forget_logit, token);
  const float forced = ForcedWriteGate(p, head, token);
  const float beta = WriteGate(write_logit, forced);
  const float gamma = ForgetGate(forget_logit);
  return {.beta = beta,
          .gamma = gamma,
          .erase = p.decayed_erase ? gamma : 1,
          .beta_slope = forced == forced ? 0 : beta * (1 - beta),
          .forget_slope = -gamma * tanhf(Negative(forget_logit))};
}

template <typename T, int kKeys>
__device__ void LoadChunk(const TokenScanProblem& p, const Head& head, const ChunkOfTokens& chunk,
                          TokenMemory<kKeys>& memory, const Values& values) {
  const int thread = static_cast<int>(threadIdx.x);
  device::SyncBlock();  // nobody reads what the last chunk left
  LoadKeys<T>(p, head, chunk, memory.k, memory.q, [](const OfTokens&) {});
  OfTokens v, d_o, recalled;  // a thread has one channel at most
  chunk.Fetch<T>(v, head, p.v, thread, p.head_v_dim);
  chunk.Fetch<T>(d_o, head, p.d_o, thread, p.head_v_dim);
  chunk.Fetch<float>(recalled, head, p.recalled, thread, p.head_v_dim);
  Keep(values.v, values.width, thread, v);
  Keep(values.d_o, values.width, thread, d_o);
  Keep(values.recalled, values.width, thread, recalled);
  if (thread < chunk.count) memory.gates[thread] = GatesOf(p, head, chunk.first + thread);
  device::SyncBlock();
}

// What the token wrote.
template <int kKeys>
__device__ void Writes(const StateTile<kKeys>& tile, const Gates& gates, const float* v,
                       const float* recalled, typename StateTile<kKeys>::Columns& u) {
  typename StateTile<kKeys>::Columns p;
  tile.AllColumns(u, v);
  tile.AllColumns(p, recalled);
#pragma unroll
  for (int c = 0; c < StateTile<kKeys>::kColumns; ++c) {
    u[c] = gates.beta * (u[c] - gates.erase * p[c]);
  }
}

// y = G^T k in all columns of the lane, and the lane's part of <G, S>.
template <int kKeys>
__device__ float ReadGradient(const StateTile<kKeys>& tile, const float* k,
                              const typename StateTile<kKeys>::State& s,
                              const typename StateTile<kKeys>::State& g,
                              typename StateTile<kKeys>::Columns& y) {
  using Tile = StateTile<kKeys>;
  float products[4] = {};  // short chains of additions
#pragma unroll
  for (float& x : y) x = 0;
#pragma unroll
  for (int i = 0; i < Tile::kGroups; ++i) {
    float rows[4];
    tile.Rows(rows, k, i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) {
        y[c] = fmaf(rows[j], g[4 * i + j][c], y[c]);
        products[j] = fmaf(s[4 * i + j][c], g[4 * i + j][c], products[j]);
      }
    }
  }
  SumOverKeyLanes(y);
  SpreadOverKeyLanes(y);
  return (products[0] + products[1]) + (products[2] + products[3]);
}

// The gradients of q and k, to `sums` [2][kKeys], as sums over the columns of the warp; takes `g`,
// the gradient of the state after the token, to that of the state `s` before it.
template <int kKeys>
__device__ void PassToken(const StateTile<kKeys>& tile, const float* k, const float* q, float gamma,
                          float scale, const typename StateTile<kKeys>::Columns& u,
                          const typename StateTile<kKeys>::Columns& d_recalled,
                          const typename StateTile<kKeys>::Columns& d_o,
                          const typename StateTile<kKeys>::State& s, float* sums,
                          typename StateTile<kKeys>::State& g) {
  using Tile = StateTile<kKeys>;
#pragma unroll
  for (int i = 0; i < Tile::kGroups; ++i) {
    float k_rows[4], q_rows[4];
    float d_q[4] = {}, d_k[4] = {};
    tile.Rows(k_rows, k, i);
    tile.Rows(q_rows, q, i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) {
        float& x = g[4 * i + j][c];
        const float state = s[4 * i + j][c];
        d_q[j] = fmaf(state, d_o[c], d_q[j]);
        d_k[j] = fmaf(state, d_recalled[c], fmaf(x, u[c], d_k[j]));
        x = fmaf(k_rows[j], d_recalled[c], fmaf(q_rows[j], d_o[c], gamma * x));
      }
    }
    // Sums are those of the first row.
    sums[tile.Row(4 * i)] = scale * SumOverValueLanes(d_q);
    sums[kKeys + tile.Row(4 * i)] = SumOverValueLanes(d_k);
  }
}

// Goes back over token t of the chunk. `place` holds the warp's part of the state before it and
// receives the gradients of q and k; to `d_weights` is added what the memory weights of Column(0)
// get.
template <typename T, int kKeys>
__device__ void GoBack(const TokenScanProblem& p, const StateTile<kKeys>& tile, const Head& head,
                       TokenMemory<kKeys>& memory, const Values& values, int t, std::int64_t token,
                       float* place, typename StateTile<kKeys>::State& g, Pair& d_weights) {
  using Tile = StateTile<kKeys>;
  const float* v = values.v + t * values.width;
  const float* recalled = values.recalled + t * values.width;
  const Gates gates = memory.gates[t];
  const int column = tile.Column(0);
  const float own = recalled[column];
  typename Tile::State s;
  typename Tile::Columns y, u, d_o, d_recalled;
  tile.LoadTogether(s, place);
  const float product = ReadGradient(tile, memory.k[t], s, g, y);
  Pair parts{0, product};
  if (tile.OwnsColumn()) {
    parts.x = (v[column] - gates.erase * own) * y[0];
    if (p.decayed_erase) parts.y -= gates.beta * own * y[0];
  }
  const Pair sum = SumOverCta(parts, memory.sums, t, tile.lane, tile.warp, tile.num_warps);
  const float d_write = gates.beta_slope * sum.x;
  const float d_forget = gates.forget_slope * sum.y;
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) {
    const Pair weights = memory.weights[tile.Column(c)];
    d_recalled[c] = weights.x * d_write + weights.y * d_forget - gates.beta * gates.erase * y[c];
  }
  Writes(tile, gates, v, recalled, u);
  tile.AllColumns(d_o, values.d_o + t * values.width);
  device::SyncWarp();  // all lanes have read the state whose place the gradients take
  PassToken(tile, memory.k[t], memory.q[t], gates.gamma, p.scale, u, d_recalled, d_o, s, place, g);

  d_weights.x = fmaf(d_write, own, d_weights.x);
  d_weights.y = fmaf(d_forget, own, d_weights.y);
  if (tile.OwnsColumn() && column < p.head_v_dim) {
    Put(head.At<T>(p.d_v, token) + column, gates.beta * y[0]);
  }
  if (threadIdx.x == 0) {
    *head.At<float>(p.d_write_logit, token) = d_write;
    *head.At<float>(p.d_forget_logit, token) = d_forget;
  }
}

// Leaves the states before the tokens [begin,end) of chunk n in shared memory.
template <int kKeys>
__device__ void Recompute(const TokenScanProblem& p, const StateTile<kKeys>& tile, const Head& head,
                          const TokenMemory<kKeys>& memory, const Values& values, std::int64_t n,
                          int begin, int end, float* states) {
  typename StateTile<kKeys>::State s;
  tile.LoadTogether(s, KeptState(p, tile, head, n));
#pragma unroll 1
  for (int t = 0; t < end; ++t) {
    if (t >= begin) tile.StoreTogether(StateInPart(tile, states, t - begin), s);
    if (t + 1 == end) break;
    typename StateTile<kKeys>::Columns u;
    const std::ptrdiff_t row = t * values.width;
    Writes(tile, memory.gates[t], values.v + row, values.recalled + row, u);
    Step(tile, memory.gates[t].gamma, memory.k[t], u, s);
  }
}

// The gradients of q and k of `count` tokens from `first` on, sums over the warps in their order.
template <typename T, int kKeys>
__device__ void StoreKeyGradients(const TokenScanProblem& p, const Head& head, const float* states,
                                  int num_warps, std::int64_t first, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count * kKeys; i += 32 * num_warps) {
    const int channel = i % kKeys;
    const std::int64_t token = first + i / kKeys;
    if (channel >= p.head_k_dim) continue;
    const float* of_token = states + i / kKeys * num_warps * kStatesPerWarp + channel;
    Pair sum{0, 0};
    for (int warp = 0; warp < num_warps; ++warp) {
      sum.x += of_token[warp * kStatesPerWarp];
      sum.y += of_token[warp * kStatesPerWarp + kKeys];
    }
    Put(head.At<T>(p.d_q, token) + channel, sum.x);
    Put(head.At<T>(p.d_k, token) + channel, sum.y);
  }
}

// A CTA owns what it has in the forward pass, and takes chunks from the last to the first. Of a
// part of a chunk it computes the states again from that before the chunk, to shared memory, then
// runs the adjoint recurrence backwards, its value in registers, fp32. Deterministic.
template <typename T, int kKeys>
__global__ void __launch_bounds__(32 * MaxWarps(kKeys)) BackwardKernel(const TokenScanProblem p) {
  using Tile = StateTile<kKeys>;
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<TokenMemory<kKeys>*>(bytes);
  const Head head(p.num_heads);
  const Tile tile;
  const Values values(reinterpret_cast<float*>(bytes + sizeof(memory)),
                      tile.num_warps * Tile::kWidth);
  float* states = values.end();
  const int part = PartOf(tile.num_warps);
  memory.LoadWeights(p, head);

  typename Tile::State g;
  Pair d_weights{0, 0};
  tile.Load(g, StateOf(p, head, p.d_final_state), p.head_k_dim, p.head_v_dim);
  for (std::int64_t n = NumChunks(p.seq_len) - 1; n >= 0; --n) {
    const ChunkOfTokens chunk(p, n);
    LoadChunk<T>(p, head, chunk, memory, values);
#pragma unroll 1
    for (int begin = (chunk.count - 1) / part * part; begin >= 0; begin -= part) {
      const int end = min(begin + part, chunk.count);
      Recompute(p, tile, head, memory, values, n, begin, end, states);
#pragma unroll 1
      for (int t = end - 1; t >= begin; --t) {
        GoBack<T>(p, tile, head, memory, values, t, chunk.first + t,
                  StateInPart(tile, states, t - begin), g, d_weights);
      }
      device::SyncBlock();
      StoreKeyGradients<T, kKeys>(p, head, states, tile.num_warps, chunk.first + begin,
                                  end - begin);
      device::SyncBlock();
    }
  }
  if (p.d_initial_state != nullptr) {
    tile.Store(StateOf(p, head, p.d_initial_state), g, p.head_k_dim, p.head_v_dim);
  }
  const int column = tile.Column(0);
  if (p.d_write_memory != nullptr && tile.OwnsColumn() && column < p.head_v_dim) {
    p.d_write_memory[head.index * p.head_v_dim + column] = d_weights.x;
    p.d_forget_memory[head.index * p.head_v_dim + column] = d_weights.y;
  }
}

}  // namespace

int TokenScanBackward(const TokenScanProblem& p, CUstream_st* stream) {
  return Dispatch(p, [&]<typename T, int kKeys>() -> int {
    const int num_warps = p.num_warps();
    const int floats = 3 * kChunk * num_warps * WarpColumns(kKeys) +
                       PartOf(num_warps) * num_warps * kStatesPerWarp;
    const std::size_t bytes =
        sizeof(TokenMemory<kKeys>) + sizeof(float) * static_cast<unsigned>(floats);
    return device::Launch(BackwardKernel<T, kKeys>, p.NumHeads(), 32 * num_warps, bytes, stream, p);
  });
}

}  // namespace mixerbench::kernels::sila
