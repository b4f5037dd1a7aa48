// Embedding look-up with positions and dropout. A group of lanes owns a token at a time, a lane
// eight of its columns: 16-byte accesses, no shared memory, fp32.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused/embedding_device.h"
#include "kernels/fused/row_layout.cuh"
#include "kernels/fused/token_ids.cuh"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kMaxBlocks = 1056;

template <typename T, int kChunks>
__global__ void __launch_bounds__(kThreads) ForwardKernel(const EmbeddingForward args) {
  const RowLayout layout(args.width);
  const std::uint64_t seed = DropoutSeed(args.dropout, args.seed);
  const long long step = static_cast<long long>(gridDim.x) * layout.num_groups;
  for (long long n = static_cast<long long>(blockIdx.x) * layout.num_groups + layout.group;
       n < args.num_tokens; n += step) {
    const long long token = TokenAt(args.tokens, n, args.vocab_size);
    const long long position = args.positions == nullptr ? 0 : n % args.seq_len;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (!layout.Active(c)) continue;
      const int column = layout.Column(c);
      Vector v = LoadFloat(args.table + token * args.width + column);
      if (args.positions != nullptr) {
        const Vector added = LoadFloat(args.positions + position * args.width + column);
#pragma unroll
        for (int j = 0; j < kVector; ++j) v.x[j] += added.x[j];
      }
      const long long i = n * args.width + column;
      ApplyDropout(args.dropout, seed, i, v);
      StoreVector(static_cast<T*>(args.out) + i, v);
    }
  }
}

}  // namespace

int LaunchEmbeddingForward(const EmbeddingForward& args, CUstream_st* stream) {
  const int groups = kThreads / LanesFor(args.width);
  const auto grid = static_cast<unsigned>(
      std::min<long long>((args.num_tokens + groups - 1) / groups, kMaxBlocks));
  const auto launch = [&]<typename T>() {
    if (args.width <= 32 * kVector) {
      ForwardKernel<T, 1><<<grid, kThreads, 0, stream>>>(args);
    } else {
      ForwardKernel<T, 2><<<grid, kThreads, 0, stream>>>(args);
    }
  };
  args.out_element == Element::kFloat ? launch.template operator()<float>()
                                      : launch.template operator()<__nv_bfloat16>();
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels::fused
