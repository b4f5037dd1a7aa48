// What both passes of the token scan share: where a CTA works, how tokens come to shared memory,
// sums over a head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/linear_attention/sila/sila_kernels.h"
#include "kernels/linear_attention/sila/sila_state_tile.cuh"

namespace mixerbench::kernels::sila {

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void Put(float* target, float x) { *target = x; }
__device__ inline void Put(__nv_bfloat16* target, float x) { *target = __float2bfloat16_rn(x); }

// The head that a CTA owns.
struct Head {
  std::int64_t index;  // of [B,H]
  std::int64_t batch, head;

  __device__ explicit Head(std::int64_t num_heads)
      : index(blockIdx.x), batch(index / num_heads), head(index % num_heads) {}

  // The channels of a token of the head.
  template <typename T>
  __device__ T* At(const device::Sequence& x, std::int64_t token) const {
    return static_cast<T*>(x.data) + batch * x.batch_stride + token * x.token_stride +
           head * x.head_stride;
  }
};

// One channel of the tokens of a chunk, zeros beyond its last one.
using OfTokens = float[kChunk];

// Tokens `first` to `first` + `count` - 1.
struct ChunkOfTokens {
  std::int64_t first;
  int count;

  __device__ ChunkOfTokens(const TokenScanProblem& p, std::int64_t n)
      : first(n * kChunk), count(static_cast<int>(min(p.seq_len - first, std::int64_t{kChunk}))) {}

  // Zeros beyond the last channel, too. No branches: all loads are under way together.
  template <typename T>
  __device__ void Fetch(OfTokens& x, const Head& head, const device::Sequence& source, int channel,
                        int num_channels) const {
    const T* data = head.At<T>(source, first) + min(channel, num_channels - 1);
#pragma unroll
    for (int t = 0; t < kChunk; ++t) {
      const float value = ToFloat(data[min(t, count - 1) * source.token_stride]);
      x[t] = t < count && channel < num_channels ? value : 0;
    }
  }
};

// To `target` [kChunk][width], unless the channel is beyond.
__device__ inline void Keep(float* target, int width, int channel, const OfTokens& x) {
  if (channel >= width) return;
#pragma unroll
  for (int t = 0; t < kChunk; ++t) target[t * width + channel] = x[t];
}

// The keys and the scaled queries of a chunk to `k` and `q`; look(x) sees the keys of every
// channel.
template <typename T, int kKeys, typename Look>
__device__ inline void LoadKeys(const TokenScanProblem& p, const Head& head,
                                const ChunkOfTokens& chunk, float (&k)[kChunk][kKeys],
                                float (&q)[kChunk][kKeys], const Look& look) {
  for (int channel = static_cast<int>(threadIdx.x); channel < kKeys;
       channel += static_cast<int>(blockDim.x)) {
    OfTokens of_k, of_q;
    chunk.Fetch<T>(of_k, head, p.k, channel, p.head_k_dim);
    chunk.Fetch<T>(of_q, head, p.q, channel, p.head_k_dim);
#pragma unroll
    for (float& x : of_q) x *= p.scale;
    Keep(k[0], kKeys, channel, of_k);
    Keep(q[0], kKeys, channel, of_q);
    look(of_k);
  }
}

// NaN where the write gate of a token is not forced.
__device__ inline float ForcedWriteGate(const TokenScanProblem& p, const Head& head,
                                        std::int64_t token) {
  return p.forced_write_gate.data == nullptr ? std::numeric_limits<float>::quiet_NaN()
                                             : *head.At<float>(p.forced_write_gate, token);
}

struct Pair {
  float x, y;
};

// Sums over all lanes of the CTA, the same in every one, in a fixed order. `sums` [2][num_warps]:
// calls alternate between its halves, so that one barrier is enough.
__device__ inline Pair SumOverCta(Pair value, Pair* sums, int call, int lane, int warp,
                                  int num_warps) {
#pragma unroll
  for (int mask = 1; mask < 32; mask *= 2) {
    value.x += device::ShuffleXor(value.x, mask);
    value.y += device::ShuffleXor(value.y, mask);
  }
  if (num_warps == 1) return value;
  Pair* of_call = sums + call % 2 * num_warps;
  if (lane == 0) of_call[warp] = value;
  device::SyncBlock();
  Pair sum = of_call[0];
  for (int i = 1; i < num_warps; ++i) {
    sum.x += of_call[i].x;
    sum.y += of_call[i].y;
  }
  return sum;
}

// sigmoid(z), or `forced` where that is not NaN.
__device__ inline float WriteGate(float z, float forced) {
  return forced == forced ? forced : 1 / (1 + expf(-z));
}
// min(z, 0), NaN for NaN.
__device__ inline float Negative(float z) { return z > 0 ? 0 : z; }
// sech z for z < 0, else 1.
__device__ inline float ForgetGate(float z) {
  const float negative = Negative(z);
  return 2 * expf(negative) / (1 + expf(2 * negative));
}

// S = gamma S + k u^T.
template <int kKeys>
__device__ inline void Step(const StateTile<kKeys>& tile, float gamma, const float* k,
                            const typename StateTile<kKeys>::Columns& u,
                            typename StateTile<kKeys>::State& s) {
  using Tile = StateTile<kKeys>;
#pragma unroll
  for (int i = 0; i < Tile::kGroups; ++i) {
    float rows[4];
    tile.Rows(rows, k, i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) {
        s[4 * i + j][c] = fmaf(rows[j], u[c], gamma * s[4 * i + j][c]);
      }
    }
  }
}

// The place in p.states of the warp's part of the state before chunk n.
template <int kKeys>
__device__ inline float* KeptState(const TokenScanProblem& p, const StateTile<kKeys>& tile,
                                   const Head& head, std::int64_t n) {
  return p.states +
         ((head.index * NumChunks(p.seq_len) + n) * tile.num_warps + tile.warp) * kStatesPerWarp;
}

// A state of this head in a dense tensor [B,H,K,V]; null stays.
template <typename T>
__device__ inline T* StateOf(const TokenScanProblem& p, const Head& head, T* states) {
  return states == nullptr ? nullptr
                           : states + head.index * (std::int64_t{p.head_k_dim} * p.head_v_dim);
}

// The weights of what is recalled in a column, in the write gate and the forget gate.
__device__ inline Pair MemoryWeights(const TokenScanProblem& p, const Head& head, int column) {
  if (p.write_memory == nullptr || column >= p.head_v_dim) return {0, 0};
  const std::int64_t at = head.head * p.head_v_dim + column;
  return {p.write_memory[at], p.forget_memory[at]};
}

// run.template operator()<T, kKeys>() for the dtype and the padded keys of the problem.
template <typename Run>
int Dispatch(const TokenScanProblem& p, const Run& run) {
  const auto with_keys = [&]<typename T>() -> int {
    return token_scan::WithPaddedKeys(
        p.head_k_dim, [&]<int kKeys>() -> int { return run.template operator()<T, kKeys>(); });
  };
  return p.element == Element::kFloat ? with_keys.template operator()<float>()
                                      : with_keys.template operator()<__nv_bfloat16>();
}

}  // namespace mixerbench::kernels::sila
