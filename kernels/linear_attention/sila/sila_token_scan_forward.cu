// The token scan, forward. Derivation in sila.md.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "kernels/linear_attention/sila/sila_token_scan.cuh"

namespace mixerbench::kernels::sila {
namespace {

// What the CTA has in shared memory. After it [kChunk][width] values.
template <int kKeys>
struct alignas(16) TokenMemory {
  Pair sums[2 * MaxWarps(kKeys)];
  float k[kChunk][kKeys];
  float q[kChunk][kKeys];
  float write_logit[kChunk];
  float forget_logit[kChunk];
  float forced_write_gate[kChunk];
  // NaN for a token that is not finite, which must not be overlooked where it meets a zero; else 0.
  float broken[kChunk];

  template <typename T>
  __device__ void Load(const TokenScanProblem& p, const Head& head, const ChunkOfTokens& chunk,
                       float* values, int width) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kChunk) LoadGates(p, head, chunk.first + min(thread, chunk.count - 1), thread);
    device::SyncBlock();
    LoadKeys<T>(p, head, chunk, k, q, [this](const OfTokens& of_k) { Look(of_k); });
    OfTokens v;
    chunk.Fetch<T>(v, head, p.v, thread, p.head_v_dim);  // a thread has one channel at most
    Keep(values, width, thread, v);
    Look(v);
    device::SyncBlock();
  }

 private:
  __device__ void LoadGates(const TokenScanProblem& p, const Head& head, std::int64_t token,
                            int t) {
    write_logit[t] = *head.At<float>(p.write_logit, token);
    forget_logit[t] = *head.At<float>(p.forget_logit, token);
    forced_write_gate[t] = ForcedWriteGate(p, head, token);
    broken[t] = isfinite(write_logit[t]) && isfinite(forget_logit[t])
                    ? 0
                    : std::numeric_limits<float>::quiet_NaN();
  }

  __device__ void Look(const OfTokens& x) {
#pragma unroll
    for (int t = 0; t < kChunk; ++t) {
      if (!isfinite(x[t])) broken[t] = std::numeric_limits<float>::quiet_NaN();
    }
  }
};

// What key and query find in the state: `recalled` in all columns of the lane; returns what is read
// of Column(0).
template <int kKeys>
__device__ float Recall(const StateTile<kKeys>& tile, const float* k, const float* q,
                        const typename StateTile<kKeys>::State& s,
                        typename StateTile<kKeys>::Columns& recalled) {
  using Tile = StateTile<kKeys>;
  typename Tile::Columns read;
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) recalled[c] = read[c] = 0;
#pragma unroll
  for (int i = 0; i < Tile::kGroups; ++i) {
    float k_rows[4], q_rows[4];
    tile.Rows(k_rows, k, i);
    tile.Rows(q_rows, q, i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) {
        recalled[c] = fmaf(k_rows[j], s[4 * i + j][c], recalled[c]);
        read[c] = fmaf(q_rows[j], s[4 * i + j][c], read[c]);
      }
    }
  }
  SumOverKeyLanes(recalled);
  SumOverKeyLanes(read);
  return read[0];
}

// Takes token t of the chunk.
template <typename T, int kKeys>
__device__ void Advance(const TokenScanProblem& p, const StateTile<kKeys>& tile, const Head& head,
                        TokenMemory<kKeys>& memory, const float* v, int t, std::int64_t token,
                        Pair weights, typename StateTile<kKeys>::State& s) {
  using Tile = StateTile<kKeys>;
  typename Tile::Columns recalled, u;
  const float read = Recall(tile, memory.k[t], memory.q[t], s, recalled);
  const float own = recalled[0];
  SpreadOverKeyLanes(recalled);
  const Pair seen = SumOverCta({weights.x * own, weights.y * own}, memory.sums, t, tile.lane,
                               tile.warp, tile.num_warps);
  const float broken = memory.broken[t];
  const float write_logit = memory.write_logit[t] + seen.x + broken;
  const float forget_logit = memory.forget_logit[t] + seen.y + broken;
  const float beta = WriteGate(write_logit, memory.forced_write_gate[t]);
  const float gamma = ForgetGate(forget_logit);
  const float erase = p.decayed_erase ? gamma : 1;
  tile.AllColumns(u, v);
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) u[c] = beta * (u[c] - erase * recalled[c]);
  Step(tile, gamma, memory.k[t], u, s);

  const int column = tile.Column(0);
  if (tile.OwnsColumn() && column < p.head_v_dim) {
    Put(head.At<T>(p.o, token) + column, read + broken);
    if (p.recalled.data != nullptr) head.At<float>(p.recalled, token)[column] = own + broken;
  }
  if (threadIdx.x == 0 && p.whole_write_logit.data != nullptr) {
    *head.At<float>(p.whole_write_logit, token) = write_logit;
    *head.At<float>(p.whole_forget_logit, token) = forget_logit;
  }
}

// A CTA owns a head, a warp kWidth columns of it for all tokens, a thread 32 elements of the state
// in registers, fp32. Tokens come to shared memory as fp32, a chunk at a time; no alignment beyond
// that of the numbers. Deterministic.
template <typename T, int kKeys>
__global__ void __launch_bounds__(32 * MaxWarps(kKeys)) ForwardKernel(const TokenScanProblem p) {
  using Tile = StateTile<kKeys>;
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<TokenMemory<kKeys>*>(bytes);
  auto* values = reinterpret_cast<float*>(bytes + sizeof(memory));
  const Head head(p.num_heads);
  const Tile tile;
  const int width = tile.num_warps * Tile::kWidth;
  const Pair weights = tile.OwnsColumn() ? MemoryWeights(p, head, tile.Column(0)) : Pair{0, 0};

  typename Tile::State s;
  tile.Load(s, StateOf(p, head, p.initial_state), p.head_k_dim, p.head_v_dim);
  for (std::int64_t n = 0; n < NumChunks(p.seq_len); ++n) {
    const ChunkOfTokens chunk(p, n);
    memory.template Load<T>(p, head, chunk, values, width);
    if (p.states != nullptr) tile.StoreTogether(KeptState(p, tile, head, n), s);
#pragma unroll 1
    for (int t = 0; t < chunk.count; ++t) {
      Advance<T>(p, tile, head, memory, values + t * width, t, chunk.first + t, weights, s);
    }
    device::SyncBlock();
  }
  tile.Store(StateOf(p, head, p.final_state), s, p.head_k_dim, p.head_v_dim);
}

}  // namespace

int TokenScanForward(const TokenScanProblem& p, CUstream_st* stream) {
  return Dispatch(p, [&]<typename T, int kKeys>() -> int {
    const int num_warps = p.num_warps();
    const std::size_t bytes =
        sizeof(TokenMemory<kKeys>) +
        sizeof(float) * kChunk * static_cast<unsigned>(num_warps * WarpColumns(kKeys));
    return device::Launch(ForwardKernel<T, kKeys>, p.NumHeads(), 32 * num_warps, bytes, stream, p);
  });
}

}  // namespace mixerbench::kernels::sila
