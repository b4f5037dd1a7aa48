// Dropped weights as a warp sees them: 16x16 blocks of scores in registers
// (kernels/device/tiles.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/attention/softmax_attention/attention_dropout.h"
#include "kernels/attention/softmax_attention/softmax_attention_kernels.h"
#include "kernels/device/tiles.cuh"

namespace mixerbench::kernels::softmax_attention {

// The draws of one (b, h). A lane draws one word for four blocks of a warp, those of the rows or
// the columns of a tile; each block's words come from eight lanes, so all lanes call. Without
// kDrops no bit is ever set, and nothing is left of the code.
template <bool kDrops>
class DropoutDraws {
 public:
  // `row` is b H + h.
  __device__ DropoutDraws(const AttentionProblem& p, std::int64_t row) {
    if constexpr (kDrops) {
      threshold_ = p.dropout.threshold;
      seed_ = static_cast<std::uint64_t>(*p.dropout_seed);
      row_ = static_cast<std::uint32_t>(row);
    }
  }

  // For 16 queries, block `query_block`, and 64 keys, blocks `first_key_block` to + 3.
  __device__ std::uint32_t OfKeys(std::int64_t query_block, std::int64_t first_key_block) const {
    return Draw(query_block, first_key_block + device::LaneId() / 8);
  }
  // For 64 queries, blocks `first_query_block` to + 3, and 16 keys, block `key_block`.
  __device__ std::uint32_t OfQueries(std::int64_t first_query_block, std::int64_t key_block) const {
    return Draw(first_query_block + device::LaneId() / 8, key_block);
  }

  // Bits of what this lane has of scores [query, key] in block `block` of the four.
  __device__ static std::uint32_t Bits(std::uint32_t word, int block) {
    if constexpr (!kDrops) return 0;
    return __shfl_sync(~0u, word, block * 8 + device::LaneId() / 4) >> (device::LaneId() % 4 * 2);
  }
  // The same of scores [key, query].
  __device__ static std::uint32_t TransposedBits(std::uint32_t word, int block) {
    if constexpr (!kDrops) return 0;
    const int lane = block * 8 + device::LaneId() % 4 * 2;
    const int key = device::LaneId() / 4;
    const std::uint32_t even = __shfl_sync(~0u, word, lane) >> key & 0x01010101u;
    const std::uint32_t odd = __shfl_sync(~0u, word, lane + 1) >> key & 0x01010101u;
    return __byte_perm(even | odd << 1, 0, 0x3120);  // columns before rows
  }
  // Whether bits drop element e of half h of an Accumulators block.
  __device__ static bool Has(std::uint32_t bits, int h, int e) {
    return kDrops && (bits & 1u << (e / 2 * 16 + h * 8 + e % 2)) != 0;
  }
  // Sets dropped weights to zero.
  __device__ static void Apply(std::uint32_t bits, device::Accumulators& weights) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (Has(bits, e / 4, e % 4)) weights[e / 4][e % 4] = 0;
    }
  }
  // The kept weights as the left operand of a product.
  template <typename Operand>
  __device__ static typename Operand::A KeptOperand(std::uint32_t bits,
                                                    const device::Accumulators& weights) {
    device::Accumulators kept;
#pragma unroll
    for (int e = 0; e < 8; ++e) kept[e / 4][e % 4] = weights[e / 4][e % 4];
    Apply(bits, kept);
    return device::ToOperand<Operand>(kept);
  }

 private:
  __device__ std::uint32_t Draw(std::int64_t query_block, std::int64_t key_block) const {
    if constexpr (!kDrops) return 0;
    return DroppedWord(threshold_, seed_, row_, static_cast<std::uint32_t>(query_block),
                       static_cast<std::uint32_t>(device::LaneId() % 8),
                       static_cast<std::uint32_t>(key_block));
  }

  std::uint32_t threshold_ = 0;
  std::uint64_t seed_ = 0;
  std::uint32_t row_ = 0;
};

}  // namespace mixerbench::kernels::softmax_attention
