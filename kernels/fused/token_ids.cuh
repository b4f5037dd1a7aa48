// Reading token ids and the dropout of embedded rows on the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/fused/embedding_device.h"
#include "kernels/fused/vector_io.cuh"

namespace mixerbench::kernels::fused {

__device__ inline int TokenAt(const TokenIds& tokens, long long i, int vocab_size) {
  const long long token = tokens.is_int64 ? static_cast<const long long*>(tokens.data)[i]
                                          : static_cast<const int*>(tokens.data)[i];
  if (token < 0 || token >= vocab_size) __trap();
  return static_cast<int>(token);
}

// Read once: 0 when nothing is dropped.
__device__ inline std::uint64_t DropoutSeed(DropoutRule rule, const std::int64_t* seed) {
  return rule.threshold == 0 ? 0 : static_cast<std::uint64_t>(*seed);
}

// Multiplies eight elements, the first of which has linear index `index`, by their factors.
__device__ inline void ApplyDropout(DropoutRule rule, std::uint64_t seed, long long index,
                                    Vector& v) {
  if (rule.threshold == 0) return;
  static_assert(kDropoutBlock == kVector);
  const DropoutFactors factors =
      DropoutBlock(rule, seed, static_cast<std::uint64_t>(index) / kVector);
#pragma unroll
  for (int i = 0; i < kVector; ++i) v.x[i] *= factors.x[i];
}

}  // namespace mixerbench::kernels::fused
