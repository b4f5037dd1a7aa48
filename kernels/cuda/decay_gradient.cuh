// Kernels for the gradient of log decays from dq and dk as they were rounded (decay_walk.h:
// DecayGradientProblem).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/cuda/decay_walk.h"
#include "kernels/cuda/operand.cuh"

namespace mixerbench::kernels::cuda {

// Adjacent channels of one token, 16 bytes.
template <typename Element>
struct alignas(16) ChannelGroup {
  static constexpr int kChannels = 16 / sizeof(Element);
  Element channel[kChannels];
};

template <typename Element>
__device__ ChannelGroup<Element> ReadGroup(const Sequence& s, std::int64_t batch,
                                           std::int64_t token, std::int64_t head, int channel) {
  return *reinterpret_cast<const ChannelGroup<Element>*>(
      static_cast<const Element*>(s.data) + batch * s.batch_stride + token * s.token_stride +
      head * s.head_stride + channel);
}

// q dq - k dk.
template <typename Operand>
__device__ void GradientTerms(float (&terms)[16 / sizeof(typename Operand::Element)],
                              const DecayGradientProblem& p, std::int64_t batch, std::int64_t token,
                              std::int64_t head, int channel) {
  using Element = typename Operand::Element;
  const auto q = ReadGroup<Element>(p.q, batch, token, head, channel);
  const auto d_q = ReadGroup<Element>(p.d_q, batch, token, head, channel);
  const auto k = ReadGroup<Element>(p.k, batch, token, head, channel);
  const auto d_k = ReadGroup<Element>(p.d_k, batch, token, head, channel);
#pragma unroll
  for (int c = 0; c < ChannelGroup<Element>::kChannels; ++c) {
    terms[c] = Operand::ToFloat(q.channel[c]) * Operand::ToFloat(d_q.channel[c]) -
               Operand::ToFloat(k.channel[c]) * Operand::ToFloat(d_k.channel[c]);
  }
}

// One decay a key channel: the sum of q dq - k dk over tokens from the last one on. A block of 128
// threads owns a chunk of one (b, h), kLanes threads the channels of a token, 16 bytes of each
// operand a thread, and every group of kLanes threads kTokens adjacent tokens: a scan over the
// groups joins their sums.
template <typename Operand, int kLanes>
__global__ void __launch_bounds__(128) VectorDecayGradientKernel(const DecayGradientProblem p) {
  using Element = typename Operand::Element;
  constexpr int kChannels = ChannelGroup<Element>::kChannels;
  constexpr int kTokens = kWalkChunk * kLanes / 128;
  constexpr int kWarps = 4;
  __shared__ float warp_sums[kWarps][kLanes][kChannels];
  const std::int64_t num_sequences = p.batch_size * p.num_heads;
  const std::int64_t sequence = blockIdx.x % num_sequences;
  const std::int64_t chunk = blockIdx.x / num_sequences;
  const std::int64_t batch = sequence / p.num_heads;
  const std::int64_t head = sequence % p.num_heads;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kLanes;
  const int channel = lane * kChannels;
  const bool exists = channel < p.key_dim;
  // The first group has the last tokens.
  const std::int64_t last = (chunk + 1) * kWalkChunk - thread / kLanes * kTokens - 1;

  float sums[kTokens][kChannels] = {};
#pragma unroll
  for (int i = 0; i < kTokens; ++i) {
    const std::int64_t token = last - i;
    if (exists && token < p.seq_len) {
      GradientTerms<Operand>(sums[i], p, batch, token, head, channel);
    }
  }
  float after[kChannels];  // of later tokens: of the groups before this one, and of later chunks
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
#pragma unroll
    for (int i = 1; i < kTokens; ++i) sums[i][c] += sums[i - 1][c];
    float scan = sums[kTokens - 1][c];
    after[c] = 0;
    if constexpr (kLanes < 32) {
      const int group = thread % 32 / kLanes;
#pragma unroll
      for (int step = 1; step < 32 / kLanes; step *= 2) {
        const float before = ShuffleUp(scan, kLanes * step);
        if (group >= step) scan += before;
      }
      const float before = ShuffleUp(scan, kLanes);
      if (group > 0) after[c] = before;
    }
    if (thread % 32 >= 32 - kLanes) warp_sums[thread / 32][lane][c] = scan;
  }
  SyncBlock();
  if (!exists) return;
  const float* boundary =
      p.state_products + (chunk * num_sequences + sequence) * p.key_dim + channel;
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    after[c] += boundary[c];
#pragma unroll
    for (int warp = 0; warp + 1 < kWarps; ++warp) {
      if (warp < thread / 32) after[c] += warp_sums[warp][lane][c];
    }
  }
#pragma unroll
  for (int i = 0; i < kTokens; ++i) {
    const std::int64_t token = last - i;
    if (token >= p.seq_len) continue;
    float* d =
        p.d_log_decay + ((batch * p.seq_len + token) * p.num_heads + head) * p.key_dim + channel;
#pragma unroll
    for (int c = 0; c < kChannels; c += 4) {
      *reinterpret_cast<float4*>(d + c) = {sums[i][c] + after[c], sums[i][c + 1] + after[c + 1],
                                           sums[i][c + 2] + after[c + 2],
                                           sums[i][c + 3] + after[c + 3]};
    }
  }
}

// One decay a token. A block of 256 threads owns a chunk: a warp sums the channels of every eighth
// token, then the first warp sums the tokens from the end.
template <typename Operand>
__global__ void __launch_bounds__(256) ScalarDecayGradientKernel(const DecayGradientProblem p) {
  constexpr int kChannels = ChannelGroup<typename Operand::Element>::kChannels;
  __shared__ float token_terms[kWalkChunk];
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
      for (int channel = kChannels * lane; channel < p.key_dim; channel += 32 * kChannels) {
        float terms[kChannels];
        GradientTerms<Operand>(terms, p, batch, token, head, channel);
#pragma unroll
        for (int c = 0; c < kChannels; ++c) sum += terms[c];
      }
    }
#pragma unroll
    for (int mask = 16; mask >= 1; mask /= 2) sum += ShuffleXor(sum, mask);
    if (lane == 0) token_terms[8 * i + warp] = sum;
  }
  SyncBlock();
  if (warp != 0) return;

  float boundary = 0;
  const float* products = p.state_products + (chunk * num_sequences + sequence) * p.key_dim;
  for (int channel = lane; channel < p.key_dim; channel += 32) boundary += products[channel];
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) boundary += ShuffleXor(boundary, mask);

  // Lane l holds tokens 62 - 2 l and 63 - 2 l, so that a scan over lanes runs from the end.
  const float last = token_terms[kWalkChunk - 1 - 2 * lane];
  const float first = token_terms[kWalkChunk - 2 - 2 * lane];
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
  const std::int64_t num_chunks = (p.seq_len + kWalkChunk - 1) / kWalkChunk;
  const auto num_blocks = static_cast<unsigned>(num_chunks * p.batch_size * p.num_heads);
  constexpr int kChannels = ChannelGroup<typename Operand::Element>::kChannels;
  const auto num_lanes = (p.key_dim + kChannels - 1) / kChannels;
  if (num_lanes <= 4) {
    VectorDecayGradientKernel<Operand, 4><<<num_blocks, 128, 0, stream>>>(p);
  } else if (num_lanes <= 8) {
    VectorDecayGradientKernel<Operand, 8><<<num_blocks, 128, 0, stream>>>(p);
  } else if (num_lanes <= 16) {
    VectorDecayGradientKernel<Operand, 16><<<num_blocks, 128, 0, stream>>>(p);
  } else if constexpr (kChannels == 4) {  // key_dim <= 128
    VectorDecayGradientKernel<Operand, 32><<<num_blocks, 128, 0, stream>>>(p);
  }
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
