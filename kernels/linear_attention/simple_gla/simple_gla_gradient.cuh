// The gradient of one log decay a token from the states that enter a chunk and the gradients of
// those that leave it, as scans by blocks rounded them (decay_scan.md: dg). Included by the .cu
// files that instantiate it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/device/log_decay.cuh"
#include "kernels/device/tiles.cuh"
#include "kernels/linear_attention/scan/decay_scan_layout.h"
#include "kernels/linear_attention/simple_gla/simple_gla_kernels.h"

namespace mixerbench::kernels::simple_gla {

using decay_scan::DecayGradientProblem;
using device::Accumulators;

constexpr int kGradientTokens = decay_scan::DecayGradientLayout::kTokens;
constexpr int kGradientWarps = decay_scan::DecayGradientLayout::kWarps;

// In shared memory, besides the tiles of tokens.
struct GradientTerms {
  float b[kGradientTokens];         // sums of log decays from the first token of the chunk
  float reads[kGradientTokens];     // of the entering state, times the gradient of what is read
  float writes[kGradientTokens];    // to the leaving state, times its gradient
  float as_later[kGradientTokens];  // pairs of tokens, by the later one
  float as_earlier[kGradientWarps][kGradientTokens];  // and by the earlier one; a part a warp
  float states[kGradientWarps];                       // <S, G>, a part a warp
};

static_assert(sizeof(GradientTerms) == decay_scan::DecayGradientLayout::kTermBytes);

// A CTA owns a chunk of one (b, h), a warp 16 of its tokens.
template <typename Operand>
struct ChunkGradient {
  using Element = typename Operand::Element;
  using Fragment = typename Operand::A;
  static constexpr int kTokens = kGradientTokens;
  static constexpr int kWarps = kGradientWarps;

  __device__ ChunkGradient(const DecayGradientProblem& problem,
                           const decay_scan::DecayGradientLayout& layout, char* memory)
      : p(problem),
        num_sequences(p.batch_size * p.num_heads),
        sequence(blockIdx.x % num_sequences),
        chunk(blockIdx.x / num_sequences),
        batch(sequence / p.num_heads),
        head(sequence % p.num_heads),
        num_tokens(
            static_cast<int>(min(static_cast<std::int64_t>(kTokens), p.seq_len - chunk * kTokens))),
        key_stride(layout.key_stride),
        value_stride(layout.value_stride),
        q(reinterpret_cast<Element*>(memory)),
        k(reinterpret_cast<Element*>(memory + layout.k)),
        d_o(reinterpret_cast<Element*>(memory + layout.d_o)),
        v(reinterpret_cast<Element*>(memory + layout.v)),
        terms(*reinterpret_cast<GradientTerms*>(memory + layout.terms)) {}

  __device__ void Run() {
    Copy(q, p.q, p.key_dim, key_stride);
    Copy(k, p.k, p.key_dim, key_stride);
    Copy(d_o, p.d_o, p.value_dim, value_stride);
    Copy(v, p.v, p.value_dim, value_stride);
    device::CommitCopies();
    if (device::WarpId() == 0) SumDecays();
    device::WaitForBlockCopies();
    FindPairs();
    FindStates();
    __syncthreads();
    if (device::WarpId() == 0) SumFromEnd();
  }

  // This chunk's rows of one (b, h).
  template <typename T>
  __device__ const T* Rows(const device::Sequence& s) const {
    return static_cast<const T*>(s.data) + batch * s.batch_stride + head * s.head_stride +
           chunk * kTokens * s.token_stride;
  }

  // Zeros for tokens and channels that do not exist.
  __device__ void Copy(Element* tile, const device::Sequence& s, std::int64_t channels,
                       int stride) const {
    constexpr int kPerCopy = 16 / sizeof(Element);
    const int copies_per_row = (stride - device::kRowPadding) / kPerCopy;
    const Element* const rows = Rows<Element>(s);
    for (int i = static_cast<int>(threadIdx.x); i < kTokens * copies_per_row; i += 32 * kWarps) {
      const int row = i / copies_per_row;
      const int channel = i % copies_per_row * kPerCopy;
      const bool exists = row < num_tokens && channel < channels;
      device::CopyAsync16(tile + row * stride + channel,
                          rows + (exists ? row * s.token_stride + channel : 0), exists);
    }
  }

  __device__ float LogDecay(int token) const {
    if (token >= num_tokens) return 0;
    return device::BoundedLogDecay(Rows<float>(p.log_decay)[token * p.log_decay.token_stride]);
  }

  // One warp; a lane has two tokens.
  __device__ void SumDecays() {
    const int lane = device::LaneId();
    const float first = LogDecay(2 * lane);
    float sum = first + LogDecay(2 * lane + 1);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float before = device::ShuffleUp(sum, step);
      if (lane >= step) sum += before;
    }
    const float before = device::ShuffleUp(sum, 1);
    terms.b[2 * lane] = (lane == 0 ? 0 : before) + first;
    terms.b[2 * lane + 1] = sum;
  }

  // F_ij = s <q_i, k_j> <do_i, v_j> e^{b_i - b_j} for j < i: what the decays between two tokens of
  // the chunk are multiplied by. Their sums over j and over i.
  __device__ void FindPairs() {
    const int warp = device::WarpId();
    const int row = 16 * warp;
    Accumulators scores[kWarps], d_scores[kWarps];
    device::Clear(scores);
    device::Clear(d_scores);
    Multiply(scores, q, k, key_stride);
    Multiply(d_scores, d_o, v, value_stride);
    float by_later[2] = {};
#pragma unroll
    for (int j = 0; j < kWarps; ++j) {
      if (j > warp) continue;
      float by_earlier[4] = {};
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int later = row + device::BlockRow(e % 4);
        const int earlier = 16 * j + device::BlockColumn(e / 4, e % 4);
        if (earlier >= later) continue;
        const float pair = p.scale * scores[j][e / 4][e % 4] * d_scores[j][e / 4][e % 4] *
                           device::Exp(terms.b[later] - terms.b[earlier]);
        by_later[e % 4 / 2] += pair;
        by_earlier[e / 4 * 2 + e % 2] += pair;
      }
      StoreOfColumns(terms.as_earlier[warp] + 16 * j, by_earlier);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = by_later[half] + device::ShuffleXor(by_later[half], 1);
      sum += device::ShuffleXor(sum, 2);
      if (device::LaneId() % 4 == 0) terms.as_later[row + device::BlockRow(2 * half)] = sum;
    }
  }

  // Products of this warp's rows with those of all tokens up to them.
  __device__ void Multiply(Accumulators (&sums)[kWarps], const Element* rows,
                           const Element* columns, int stride) const {
    const int warp = device::WarpId();
    for (int d = 0; d + device::kRowPadding < stride; d += 16) {
      const auto a = Operand::LoadA(rows + 16 * warp * stride + d, stride);
#pragma unroll
      for (int j = 0; j < kWarps; ++j) {
        if (j > warp) continue;
        device::MultiplyAdd<Operand>(sums[j], a,
                                     Operand::LoadB(columns + 16 * j * stride + d, stride));
      }
    }
  }

  // A lane has a part of the sum of each of four columns of blocks: those of BlockColumn(h, p).
  __device__ void StoreOfColumns(float* to, const float (&sums)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float sum = sums[i];
#pragma unroll
      for (int mask = 4; mask < 32; mask *= 2) sum += device::ShuffleXor(sum, mask);
      if (device::LaneId() < 4) to[device::BlockColumn(i / 2, i % 2)] = sum;
    }
  }

  // s e^{b_i} <q_i, S do_i> and s e^{b_C - b_i} <k_i, G v_i> of this warp's tokens, and its part of
  // <S, G>.
  __device__ void FindStates() {
    const int row = 16 * device::WarpId();
    const int num_groups = key_stride / 16;  // of key channels
    const int num_tiles = value_stride / 16;
    float reads[4] = {}, writes[4] = {};
    float product = 0;
    for (int group = 0; group < num_groups; ++group) {
      Accumulators read, written;
      Clear(read);
      Clear(written);
      for (int tile = 0; tile < num_tiles; ++tile) {
        const Fragment state = EnteringState(group, tile);
        const Fragment gradient = Saved(p.d_states, chunk, group, tile);
        device::MultiplyAdd<Operand>(
            read, state, Operand::LoadB(d_o + row * value_stride + 16 * tile, value_stride));
        device::MultiplyAdd<Operand>(
            written, gradient, Operand::LoadB(v + row * value_stride + 16 * tile, value_stride));
        if ((group * num_tiles + tile) % kWarps == device::WarpId()) {
          Accumulators s, g;
          device::FromOperand<Operand>(s, state);
          device::FromOperand<Operand>(g, gradient);
#pragma unroll
          for (int e = 0; e < 8; ++e) product += s[e / 4][e % 4] * g[e / 4][e % 4];
        }
      }
      AddProducts(reads, read, q + row * key_stride + 16 * group);
      AddProducts(writes, written, k + row * key_stride + 16 * group);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float b = terms.b[row + device::BlockColumn(i / 2, i % 2)];
      reads[i] *= p.scale * device::Exp(b);
      writes[i] *= p.scale * device::Exp(terms.b[kTokens - 1] - b);
    }
    StoreOfColumns(terms.reads + row, reads);
    StoreOfColumns(terms.writes + row, writes);
#pragma unroll
    for (int mask = 16; mask >= 1; mask /= 2) product += device::ShuffleXor(product, mask);
    if (device::LaneId() == 0) terms.states[device::WarpId()] = product;
  }

  static __device__ void Clear(Accumulators& c) {
#pragma unroll
    for (int e = 0; e < 8; ++e) c[e / 4][e % 4] = 0;
  }

  // sums += columns of x ∘ (the transpose of 16 channels of 16 rows).
  __device__ void AddProducts(float (&sums)[4], const Accumulators& x, const Element* rows) const {
    Accumulators y;
    device::FromOperand<Operand>(y, Operand::LoadATransposed(rows, key_stride));
#pragma unroll
    for (int e = 0; e < 8; ++e) sums[e / 4 * 2 + e % 2] += x[e / 4][e % 4] * y[e / 4][e % 4];
  }

  // 16 key channels, 16 value channels of the state that enters the chunk: zeros before the first
  // token without an initial state.
  __device__ Fragment EnteringState(int group, int tile) const {
    if (chunk > 0) return Saved(p.states, chunk - 1, group, tile);
    device::Tile x = {};
    if (p.initial_state != nullptr) {
      const float* const state = p.initial_state + sequence * p.key_dim * p.value_dim;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int key = 16 * group + device::BlockRow(e / 4 * 2);
        const int value = 16 * tile + device::BlockColumn(e / 2 % 2, e % 2);
        if (key < p.key_dim && value < p.value_dim) {
          x[e / 4][e / 2 % 2][e % 2] = state[key * p.value_dim + value];
        }
      }
    }
    return Operand::ToA(x);
  }

  // As Consumer::SaveState leaves them.
  __device__ Fragment Saved(const void* states, std::int64_t index, int group, int tile) const {
    const int num_groups = key_stride / 16;
    const int num_tiles = decay_scan::PaddedKeys(p.value_dim) / 16;
    const std::int64_t first = (index * num_sequences + sequence) * num_groups + group;
    return static_cast<const Fragment*>(states)[(first * num_tiles + tile) * 32 + device::LaneId()];
  }

  // One warp. Lane l has tokens 62 - 2 l and 63 - 2 l, so that a scan over lanes runs from the end.
  __device__ void SumFromEnd() const {
    const int lane = device::LaneId();
    const int first = kTokens - 2 - 2 * lane;
    const float term[2] = {Term(first), Term(first + 1)};
    float boundary = terms.writes[first] + terms.writes[first + 1];
    if (lane < kWarps) {
      boundary += p.scale * device::Exp(terms.b[kTokens - 1]) * terms.states[lane];
    }
#pragma unroll
    for (int mask = 16; mask >= 1; mask /= 2) boundary += device::ShuffleXor(boundary, mask);
    float scan = term[0] + term[1];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float before = device::ShuffleUp(scan, step);
      if (lane >= step) scan += before;
    }
    const float later = device::ShuffleUp(scan, 1);
    const float after = boundary + (lane == 0 ? 0 : later);
    const float sums[2] = {after + term[1] + term[0], after + term[1]};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = first + i;
      if (token >= num_tokens) continue;
      float* const row =
          p.d_log_decay + (batch * p.seq_len + chunk * kTokens + token) * p.num_heads;
      row[head] = device::IsReset(LogDecay(token)) ? 0 : sums[i];
    }
  }

  __device__ float Term(int token) const {
    float as_earlier = 0;
    for (int warp = token / 16; warp < kWarps; ++warp) as_earlier += terms.as_earlier[warp][token];
    return terms.reads[token] + terms.as_later[token] - as_earlier - terms.writes[token];
  }

  const DecayGradientProblem& p;
  const std::int64_t num_sequences, sequence, chunk, batch, head;
  const int num_tokens;  // of the chunk
  const int key_stride, value_stride;
  Element *const q, *const k, *const d_o, *const v;
  GradientTerms& terms;
};

// Dynamic shared memory: DecayGradientLayout. Accumulators fp32; no atomics, every sum has a fixed
// order.
template <typename Operand>
__global__ void __launch_bounds__(32 * kGradientWarps)
    ChunkGradientKernel(const __grid_constant__ DecayGradientProblem p) {
  extern __shared__ __align__(16) char memory[];
  const decay_scan::DecayGradientLayout layout(sizeof(typename Operand::Element), p.key_dim,
                                               p.value_dim);
  ChunkGradient<Operand>(p, layout, memory).Run();
}

template <typename Operand>
int LaunchChunkGradient(const DecayGradientProblem& p, CUstream_st* stream) {
  const decay_scan::DecayGradientLayout layout(sizeof(typename Operand::Element), p.key_dim,
                                               p.value_dim);
  const std::int64_t num_chunks = (p.seq_len + kGradientTokens - 1) / kGradientTokens;
  return device::Launch(ChunkGradientKernel<Operand>, num_chunks * p.batch_size * p.num_heads,
                        32 * kGradientWarps, static_cast<std::size_t>(layout.bytes), stream, p);
}

}  // namespace mixerbench::kernels::simple_gla
