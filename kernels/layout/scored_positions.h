// Which tokens of a batch are scored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mixerbench::kernels {

// M of the N tokens of a batch, both ways round. A batch with fewer ends in padding: entries of
// `positions` that `inverse` does not lead back to, whose results are finite and get no gradient.
struct ScoredPositions {
  at::Tensor positions;  // [M] int64 in 0..N-1
  at::Tensor inverse;    // [N] int64: i with positions[i] = n, whose gradient token n gets; M: none
  // R when the N tokens are those of M/R sequences one after the other and positions b*R..b*R+R-1
  // belong to sequence b, in order; padding is then token 0, whatever the sequence. 0: in no order.
  std::int64_t per_sequence = 0;
};

}  // namespace mixerbench::kernels
