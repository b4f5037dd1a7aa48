// The gradient of log decays of key channels from dq and dk as they were rounded (decay_scan.h:
// DecayGradientProblem).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/device/log_decay.cuh"
#include "kernels/device/operand.cuh"
#include "kernels/linear_attention/scan/decay_scan.h"

namespace mixerbench::kernels::decay_scan {

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

// One decay a key channel: the sum of q dq - k dk over tokens from the last one on. At both ends of
// a chunk it is known, and by how much it misses the value at its beginning is spread evenly over
// its tokens (decay_scan.md). A block of 128 threads owns a chunk of one (b, h), kLanes threads the
// channels of a token, 16 bytes of each operand a thread, and every group of kLanes threads kTokens
// adjacent tokens: a scan over the groups joins their sums.
template <typename Operand, int kLanes>
__global__ void __launch_bounds__(128) VectorDecayGradientKernel(const DecayGradientProblem p) {
  using Element = typename Operand::Element;
  constexpr int kChunk = SavedChunk(DecayAxis::kValue);
  constexpr int kChannels = ChannelGroup<Element>::kChannels;
  constexpr int kTokens = kChunk * kLanes / 128;
  constexpr int kWarps = 4;
  static_assert(kTokens >= 1);
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
  const std::int64_t last = (chunk + 1) * kChunk - thread / kLanes * kTokens - 1;

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
  const float* products =
      p.state_products + (chunk * num_sequences + sequence) * p.key_dim + channel;
  const float* products_before = products - num_sequences * p.key_dim;
  // What all sums lack at the first token, by token; of an initial state it is not known.
  const bool is_closed = chunk > 0 || p.initial_state == nullptr;
  const auto num_tokens =
      static_cast<float>(min(static_cast<std::int64_t>(kChunk), p.seq_len - chunk * kChunk));
  float correction[kChannels];
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    float total = products[c];
    after[c] += products[c];
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      total += warp_sums[warp][lane][c];
      if (warp < thread / 32) after[c] += warp_sums[warp][lane][c];
    }
    const float expected = chunk > 0 ? products_before[c] : 0;
    correction[c] = is_closed ? (expected - total) / num_tokens : 0;
  }
  const Sequence& g = p.log_decay;
  const float* const gates =
      static_cast<const float*>(g.data) + batch * g.batch_stride + head * g.head_stride + channel;
#pragma unroll
  for (int i = 0; i < kTokens; ++i) {
    const std::int64_t token = last - i;
    if (token >= p.seq_len) continue;
    const float* const gate = gates + token * g.token_stride;
    float* d =
        p.d_log_decay + ((batch * p.seq_len + token) * p.num_heads + head) * p.key_dim + channel;
    // Tokens of the chunk from this one on.
    const auto count = static_cast<float>(min((chunk + 1) * kChunk, p.seq_len) - token);
#pragma unroll
    for (int c = 0; c < kChannels; c += 4) {
      const float4 at = *reinterpret_cast<const float4*>(gate + c);
      const auto sum = [&](int channel_of_group, float log_decay) {
        return IsReset(log_decay) ? 0
                                  : sums[i][channel_of_group] + after[channel_of_group] +
                                        count * correction[channel_of_group];
      };
      *reinterpret_cast<float4*>(d + c) = {sum(c, at.x), sum(c + 1, at.y), sum(c + 2, at.z),
                                           sum(c + 3, at.w)};
    }
  }
}

template <typename Operand>
int LaunchGlaGradient(const DecayGradientProblem& p, CUstream_st* stream) {
  constexpr int kChunk = SavedChunk(DecayAxis::kValue);
  const std::int64_t num_chunks = (p.seq_len + kChunk - 1) / kChunk;
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

}  // namespace mixerbench::kernels::decay_scan
