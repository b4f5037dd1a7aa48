// Which attention weights dropout drops: a pure function of a 64-bit seed, (b, h) and the positions
// of query and key, so that the backward pass draws again instead of reading a mask, and the CPU
// and every kernel on the GPU agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/philox.h"

namespace mixerbench::kernels::softmax_attention {

// A weight has so many random bits: twelve, that is three calls of Philox for 32 weights. p = 0.1
// becomes 0.1001; eight bits would make it 0.1016.
constexpr int kDropoutBits = 12;

constexpr std::uint32_t kDropoutRange = 1u << kDropoutBits;

struct DropoutRule {
  std::uint32_t threshold = 0;  // of kDropoutRange weights so many are dropped; 0: none
  float scale = 1;              // of what is kept: 1 / KeptShare
};

// The probability that a weight is kept.
inline double KeptShare(const DropoutRule& rule) {
  return static_cast<double>(kDropoutRange - rule.threshold) / kDropoutRange;
}

// 0 <= p < 1, rounded to 2^-12 and to less than 1.
inline DropoutRule MakeDropoutRule(double p) {
  DropoutRule rule;
  rule.threshold = std::min(static_cast<std::uint32_t>(p * kDropoutRange + 0.5), kDropoutRange - 1);
  rule.scale = static_cast<float>(1 / KeptShare(rule));
  return rule;
}

// Bits of 32 weights of one (b, h), numbered `row` = b H + h: a set bit drops one. The word belongs
// to queries i = 16 query_block + query and i + 8, where query < 8, and to the keys from
// j = 16 key_block on; bit 16 n + m is that of query i + 8 n and key j + m. Tensor cores hold
// blocks of 16x16 scores, so both a warp with 16 queries and 64 keys and one with 16 keys and 64
// queries need 32 words, one a lane.
//
// Twelve random words make 32 bits that are set with a probability of twelve binary digits: for a
// digit 1 the probability goes from x to (1 + x) / 2 (or), for a digit 0 to x / 2 (and), the last
// digit first.
MB_HOST_DEVICE inline std::uint32_t DroppedWord(std::uint32_t threshold, std::uint64_t seed,
                                                std::uint32_t row, std::uint32_t query_block,
                                                std::uint32_t query, std::uint32_t key_block) {
  const PhiloxKey key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  std::uint32_t dropped = 0;
  for (std::uint32_t call = 0; call < kDropoutBits / 4; ++call) {
    const PhiloxBlock bits = Philox4x32(8 * query_block + query, key_block, row, call, key);
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t digit = 0u - (threshold & 1u);
      threshold >>= 1;
      dropped = (dropped & bits.words[i]) | (digit & (dropped | bits.words[i]));
    }
  }
  return dropped;
}

// Bit m: whether the weight of this query and of key 16 key_block + m is dropped.
MB_HOST_DEVICE inline std::uint32_t DroppedKeys(std::uint32_t threshold, std::uint64_t seed,
                                                std::uint32_t row, std::uint32_t query,
                                                std::uint32_t key_block) {
  const std::uint32_t word = DroppedWord(threshold, seed, row, query / 16, query % 8, key_block);
  return query / 8 % 2 == 0 ? word & 0xffffu : word >> 16;
}

// All of a mask in memory, for paths that hold all weights there.
struct DropoutMask {
  DropoutRule rule;
  const std::int64_t* seed = nullptr;  // one
  float* kept = nullptr;               // [rows,T,S], 1 or 0
  // [rows,T] tokens of the queries; nullptr: they are the last T of S tokens.
  const std::int64_t* positions = nullptr;
  std::int64_t num_rows = 0;  // B H
  std::int64_t num_queries = 0;
  std::int64_t num_keys = 0;

  // Groups of up to 16 keys of one query, which FillGroup fills.
  MB_HOST_DEVICE std::int64_t groups_per_query() const { return (num_keys + 15) / 16; }
  MB_HOST_DEVICE std::int64_t num_groups() const {
    return num_rows * num_queries * groups_per_query();
  }
};

MB_HOST_DEVICE inline void FillGroup(const DropoutMask& mask, std::int64_t index) {
  const std::int64_t key_block = index % mask.groups_per_query();
  const std::int64_t at = index / mask.groups_per_query();  // in [rows,T]
  const std::int64_t query = mask.positions != nullptr
                                 ? mask.positions[at]
                                 : mask.num_keys - mask.num_queries + at % mask.num_queries;
  const std::uint32_t dropped =
      DroppedKeys(mask.rule.threshold, static_cast<std::uint64_t>(*mask.seed),
                  static_cast<std::uint32_t>(at / mask.num_queries),
                  static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(key_block));
  for (std::int64_t key = 16 * key_block; key < mask.num_keys && key < 16 * key_block + 16; ++key) {
    mask.kept[at * mask.num_keys + key] = (dropped >> key % 16 & 1) != 0 ? 0.f : 1.f;
  }
}

}  // namespace mixerbench::kernels::softmax_attention
