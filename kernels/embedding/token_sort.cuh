// Tokens of a batch in the order of their ids, equal ones in the order of the batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/row_layout.cuh"
#include "kernels/embedding/embedding_cuda.h"

namespace mixerbench::kernels {

constexpr int kRankTokens = 1024;  // of a chunk
constexpr int kScanIds = 128;

// Views of EmbeddingBackward::indices. `order` and `starts` are the result.
struct SortedTokens {
  int num_chunks;         // of kRankTokens tokens
  int2* order;            // [N]: place in the batch and id of a sorted position
  std::int32_t* ranks;    // [N]: among equal ids of the same chunk
  std::int32_t* counts;   // [num_chunks, V]: of an id, then where the chunk's share of it starts
  std::int32_t* offsets;  // [V]: where an id starts among its kScanIds
  std::int32_t* totals;   // [V / kScanIds]: tokens of so many ids
  std::int32_t* starts;   // [V + 1]

  __device__ SortedTokens(std::int32_t* base, long long num_tokens, int vocab_size)
      : num_chunks(Blocks(num_tokens, kRankTokens)),
        order(reinterpret_cast<int2*>(base)),
        ranks(base + 2 * num_tokens),
        counts(base + 3 * num_tokens),
        offsets(counts + static_cast<long long>(num_chunks) * vocab_size),
        totals(offsets + vocab_size),
        starts(totals + Blocks(vocab_size, kScanIds)) {}

  // In elements of four bytes.
  static long long Size(long long num_tokens, int vocab_size) {
    return 3 * num_tokens + static_cast<long long>(Blocks(num_tokens, kRankTokens)) * vocab_size +
           Blocks(vocab_size, kScanIds) + 2LL * vocab_size + 1;
  }

  __device__ explicit SortedTokens(const EmbeddingBackward& args)
      : SortedTokens(args.indices, args.sizes.num_tokens, args.sizes.vocab_size) {}
};

// Queues the sort; returns the CUDA error code of the launch.
int LaunchTokenSort(const EmbeddingBackward& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
