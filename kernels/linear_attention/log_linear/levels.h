// Which level of log-linear attention holds which tokens, and its states.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/log_linear/log_linear.h"
#include "kernels/linear_attention/recurrence.h"

namespace mixerbench::kernels::log_linear {

// Of a token at `position`, the tokens before it at `level` >= 1: [begin, begin + size).
struct Bucket {
  std::int64_t level = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

inline std::vector<Bucket> BucketsBefore(std::int64_t position) {
  std::vector<Bucket> buckets;
  for (std::int64_t level = 1, size = 1; size <= position; ++level, size *= 2) {
    if ((position & size) != 0) buckets.push_back({level, (position & -size) - size, size});
  }
  return buckets;
}

// Levels that tokens before 2^(levels-1) have.
inline std::int64_t MaxPosition(std::int64_t num_levels) {
  return std::int64_t{1} << (num_levels - 1);
}

PreparedRecurrence PrepareLogLinear(const LogLinearArgs& args);

inline std::int64_t NumLevels(const LogLinearArgs& args) { return args.level_weight.size(3); }

// Level l >= 1 of the initial state in the dtype of the computation, [B,H,K,V].
at::Tensor InitialLevel(const LogLinearArgs& args, std::int64_t level, at::ScalarType dtype);

}  // namespace mixerbench::kernels::log_linear
