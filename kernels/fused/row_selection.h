// Which rows of a matrix of tokens are wanted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mixerbench::kernels::fused {

// Which rows of N are taken, both ways round.
struct RowSelection {
  at::Tensor rows;     // [M] int64 in 0..N-1
  at::Tensor entries;  // [N] int64: i with rows[i] = n, the one whose gradient row n gets; M: none
  // R when the N rows are those of M/R sequences one after the other and entries b*R..b*R+R-1
  // belong to sequence b, in order of position; surplus entries are row 0, whatever the sequence.
  // 0: in no order.
  std::int64_t rows_per_sequence = 0;
};

}  // namespace mixerbench::kernels::fused
