// The gradient of one log decay a token from the sums that scans by chunks leave behind
// (kernels/linear_attention/scan/decay_scan.h: DecayGradientProblem).
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/device/log_decay.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/linear_attention/simple_gla/simple_gla_kernels.h"

namespace mixerbench::kernels::simple_gla {
namespace {

using decay_scan::kScanChunk;
using device::ShuffleUp;
using device::ShuffleXor;

constexpr int kChunksPerBlock = 4;

// A warp owns a chunk of one (b, h), a lane two of its tokens, and sums from the end: grid
// B H N / kChunksPerBlock. fp32; no atomics, every sum has a fixed order.
__global__ void __launch_bounds__(32 * kChunksPerBlock)
    DecayGradientKernel(const decay_scan::DecayGradientProblem p) {
  static_assert(kScanChunk == 2 * 32);
  const std::int64_t num_sequences = p.batch_size * p.num_heads;
  const std::int64_t num_chunks = (p.seq_len + kScanChunk - 1) / kScanChunk;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * kChunksPerBlock + threadIdx.x / 32;
  if (index >= num_chunks * num_sequences) return;
  const std::int64_t sequence = index % num_sequences;
  const std::int64_t chunk = index / num_sequences;

  // Of tokens `first` and the next one; lane 0 has the last ones of the chunk.
  const std::int64_t first = chunk * kScanChunk + kScanChunk - 2 - 2 * lane;
  float terms[2] = {0, 0};
  if (first < p.seq_len) {
    const std::int64_t block = first / 16 * num_sequences + sequence;
#pragma unroll 4
    for (int i = 0; i < p.num_product_sums; ++i) {
      const std::int64_t pair = (block * p.num_product_sums + i) * 8 + first % 16 / 2;
      const float2 q = reinterpret_cast<const float2*>(p.q_products)[pair];
      const float2 k = reinterpret_cast<const float2*>(p.k_products)[pair];
      terms[0] += q.x - k.x;
      terms[1] += q.y - k.y;
    }
    if (first + 1 == p.seq_len) terms[1] = 0;
  }
  float boundary = 0;
  const float* products = p.state_products + (chunk * num_sequences + sequence) * p.key_dim;
  for (int channel = lane; channel < p.key_dim; channel += 32) boundary += products[channel];
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) boundary += ShuffleXor(boundary, mask);

  float scan = terms[0] + terms[1];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float before = ShuffleUp(scan, step);
    if (lane >= step) scan += before;
  }
  const float later = ShuffleUp(scan, 1);
  const float after = boundary + (lane == 0 ? 0 : later);
  const std::int64_t batch = sequence / p.num_heads;
  const std::int64_t head = sequence % p.num_heads;
  const float* g = static_cast<const float*>(p.log_decay.data) + batch * p.log_decay.batch_stride +
                   head * p.log_decay.head_stride + first * p.log_decay.token_stride;
  float* d = p.d_log_decay + (batch * p.seq_len + first) * p.num_heads + head;
  const float sums[2] = {after + terms[1] + terms[0], after + terms[1]};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (first + i >= p.seq_len) continue;
    d[i * p.num_heads] = device::IsReset(g[i * p.log_decay.token_stride]) ? 0 : sums[i];
  }
}

}  // namespace

int DecayGradientOfSums(const decay_scan::DecayGradientProblem& problem, CUstream_st* stream) {
  const std::int64_t num_chunks = (problem.seq_len + kScanChunk - 1) / kScanChunk;
  const std::int64_t num_blocks =
      (num_chunks * problem.batch_size * problem.num_heads + kChunksPerBlock - 1) / kChunksPerBlock;
  DecayGradientKernel<<<static_cast<unsigned>(num_blocks), 32 * kChunksPerBlock, 0, stream>>>(
      problem);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels::simple_gla
