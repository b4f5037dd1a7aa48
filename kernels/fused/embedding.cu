// Embedding look-up with positions and dropout. A thread owns eight columns of one token: 16-byte
// accesses, no shared memory, fp32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/embedding_device.h"
#include "kernels/fused/token_ids.cuh"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) ForwardKernel(const EmbeddingForward args) {
  const int vectors = args.width / kVector;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= args.num_tokens * vectors) return;
  const long long n = i / vectors;
  const int column = static_cast<int>(i % vectors) * kVector;
  const long long token = TokenAt(args.tokens, n, args.vocab_size);
  Vector v = LoadFloat(args.table + token * args.width + column);
  if (args.positions != nullptr) {
    const Vector position = LoadFloat(args.positions + n % args.seq_len * args.width + column);
#pragma unroll
    for (int j = 0; j < kVector; ++j) v.x[j] += position.x[j];
  }
  ApplyDropout(args.dropout, DropoutSeed(args.dropout, args.seed), i * kVector, v);
  StoreFloat(args.out + i * kVector, v);
}

}  // namespace

int LaunchEmbeddingForward(const EmbeddingForward& args, CUstream_st* stream) {
  const long long vectors = args.num_tokens * (args.width / kVector);
  ForwardKernel<<<static_cast<unsigned>((vectors + kThreads - 1) / kThreads), kThreads, 0,
                  stream>>>(args);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels::fused
