// Kernels for the gradient of log decays (decay_walk.h: DecayGradientProblem).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/cuda/decay_walk.h"
#include "kernels/cuda/operand.cuh"

namespace mixerbench::kernels::cuda {

// Four channels of one token: 8 bytes of bf16, 16 of fp32.
template <typename Element>
struct alignas(4 * sizeof(Element)) FourChannels {
  Element channel[4];
};

// Reads four channels of (batch, token, head).
template <typename Element>
__device__ FourChannels<Element> ReadFour(const Sequence& s, std::int64_t batch, std::int64_t token,
                                          std::int64_t head, int channel) {
  return *reinterpret_cast<const FourChannels<Element>*>(
      static_cast<const Element*>(s.data) + batch * s.batch_stride + token * s.token_stride +
      head * s.head_stride + channel);
}

// q dq - k dk of four channels.
template <typename Operand>
__device__ float4 GradientTerms(const DecayGradientProblem& p, std::int64_t batch,
                                std::int64_t token, std::int64_t head, int channel) {
  using Element = typename Operand::Element;
  const auto q = ReadFour<Element>(p.q, batch, token, head, channel);
  const auto d_q = ReadFour<Element>(p.d_q, batch, token, head, channel);
  const auto k = ReadFour<Element>(p.k, batch, token, head, channel);
  const auto d_k = ReadFour<Element>(p.d_k, batch, token, head, channel);
  float terms[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    terms[c] = Operand::ToFloat(q.channel[c]) * Operand::ToFloat(d_q.channel[c]) -
               Operand::ToFloat(k.channel[c]) * Operand::ToFloat(d_k.channel[c]);
  }
  return {terms[0], terms[1], terms[2], terms[3]};
}

// One decay a key channel. Eight lanes own four channels of one chunk, eight tokens each; a scan
// over lanes joins their sums, from the end. A warp has four such groups, so that it reads 32
// adjacent bytes of bf16 and writes 64 of fp32 at a time.
template <typename Operand>
__global__ void __launch_bounds__(128) VectorDecayGradientKernel(const DecayGradientProblem p) {
  constexpr int kTokens = kWalkChunk / 8;
  const std::int64_t num_sequences = p.batch_size * p.num_heads;
  const std::int64_t num_chunks = (p.seq_len + kWalkChunk - 1) / kWalkChunk;
  const int per_token = static_cast<int>(p.key_dim / 4);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int part = lane / 4;  // 0 has the last tokens
  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const std::int64_t index = warp * 4 + lane % 4;
  const bool exists = index < num_chunks * num_sequences * per_token;
  const int channel = static_cast<int>(index % per_token) * 4;
  const std::int64_t sequence = index / per_token % num_sequences;
  const std::int64_t chunk = index / per_token / num_sequences;
  const std::int64_t batch = sequence / p.num_heads;
  const std::int64_t head = sequence % p.num_heads;
  const std::int64_t last = (chunk + 1) * kWalkChunk - part * kTokens - 1;

  float sums[kTokens][4];  // over this lane's tokens from the last one on; loads before stores
#pragma unroll
  for (int i = 0; i < kTokens; ++i) {
    const std::int64_t token = last - i;
    const float4 term = exists && token < p.seq_len
                            ? GradientTerms<Operand>(p, batch, token, head, channel)
                            : float4{};
    sums[i][0] = term.x, sums[i][1] = term.y, sums[i][2] = term.z, sums[i][3] = term.w;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (i > 0) sums[i][c] += sums[i - 1][c];
    }
  }
  float after[4];  // of the tokens of lower parts, and of later chunks
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    float scan = sums[kTokens - 1][c];
#pragma unroll
    for (int step = 1; step < 8; step *= 2) {
      const float before = ShuffleUp(scan, 4 * step);
      if (part >= step) scan += before;
    }
    const float before = ShuffleUp(scan, 4);
    after[c] = part == 0 ? 0 : before;
  }
  if (!exists) return;
  const float4 boundary = *reinterpret_cast<const float4*>(
      p.state_products + (chunk * num_sequences + sequence) * p.key_dim + channel);
  after[0] += boundary.x, after[1] += boundary.y, after[2] += boundary.z, after[3] += boundary.w;
#pragma unroll
  for (int i = 0; i < kTokens; ++i) {
    const std::int64_t token = last - i;
    if (token < p.seq_len) {
      *reinterpret_cast<float4*>(p.d_log_decay +
                                 ((batch * p.seq_len + token) * p.num_heads + head) * p.key_dim +
                                 channel) = {sums[i][0] + after[0], sums[i][1] + after[1],
                                             sums[i][2] + after[2], sums[i][3] + after[3]};
    }
  }
}

// One decay a token. A block of 256 threads owns a chunk: a warp sums the channels of every eighth
// token, then the first warp sums the tokens from the end.
template <typename Operand>
__global__ void __launch_bounds__(256) ScalarDecayGradientKernel(const DecayGradientProblem p) {
  __shared__ float terms[kWalkChunk];
  const std::int64_t num_sequences = p.batch_size * p.num_heads;
  const std::int64_t sequence = blockIdx.x % num_sequences;
  const std::int64_t chunk = blockIdx.x / num_sequences;
  const std::int64_t batch = sequence / p.num_heads;
  const std::int64_t head = sequence % p.num_heads;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
#pragma unroll
  for (int i = 0; i < kWalkChunk / 8; ++i) {
    const std::int64_t token = chunk * kWalkChunk + 8 * i + warp;
    float sum = 0;
    if (token < p.seq_len) {
      for (int channel = 4 * lane; channel < p.key_dim; channel += 128) {
        const float4 term = GradientTerms<Operand>(p, batch, token, head, channel);
        sum += (term.x + term.y) + (term.z + term.w);
      }
    }
#pragma unroll
    for (int mask = 16; mask >= 1; mask /= 2) sum += ShuffleXor(sum, mask);
    if (lane == 0) terms[8 * i + warp] = sum;
  }
  SyncBlock();
  if (warp != 0) return;

  float boundary = 0;
  const float* products = p.state_products + (chunk * num_sequences + sequence) * p.key_dim;
  for (int channel = lane; channel < p.key_dim; channel += 32) boundary += products[channel];
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) boundary += ShuffleXor(boundary, mask);

  // Lane l holds tokens 62 - 2 l and 63 - 2 l, so that a scan over lanes runs from the end.
  const float last = terms[kWalkChunk - 1 - 2 * lane];
  const float first = terms[kWalkChunk - 2 - 2 * lane];
  float scan = last + first;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float before = ShuffleUp(scan, step);
    if (lane >= step) scan += before;
  }
  const float left = ShuffleUp(scan, 1);
  const float after = boundary + (lane == 0 ? 0 : left);
  const std::int64_t token = chunk * kWalkChunk + kWalkChunk - 2 - 2 * lane;
  float* d = p.d_log_decay + (batch * p.seq_len + token) * p.num_heads + head;
  if (token < p.seq_len) d[0] = after + last + first;
  if (token + 1 < p.seq_len) d[p.num_heads] = after + last;
}

template <typename Operand>
int LaunchVectorDecayGradient(const DecayGradientProblem& p, CUstream_st* stream) {
  constexpr int kThreads = 128;
  const std::int64_t num_chunks = (p.seq_len + kWalkChunk - 1) / kWalkChunk;
  const std::int64_t threads = num_chunks * p.batch_size * p.num_heads * (p.key_dim / 4) * 8;
  VectorDecayGradientKernel<Operand>
      <<<static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

template <typename Operand>
int LaunchScalarDecayGradient(const DecayGradientProblem& p, CUstream_st* stream) {
  const std::int64_t num_chunks = (p.seq_len + kWalkChunk - 1) / kWalkChunk;
  const auto num_blocks = static_cast<unsigned>(num_chunks * p.batch_size * p.num_heads);
  ScalarDecayGradientKernel<Operand><<<num_blocks, 256, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels::cuda
