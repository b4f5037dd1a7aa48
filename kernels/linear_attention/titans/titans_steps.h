// What the paths of Titans share, and the serial part of the fast one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/recurrence.h"
#include "kernels/linear_attention/titans/titans.h"

namespace mixerbench::kernels::titans {

// The tokens of a call after those of its unfinished chunk, in the dtype of the computation.
struct TitansTokens {
  at::Tensor k, v;                           // [B,U+T,H,.]
  at::Tensor log_decay, log_momentum, step;  // [B,U+T,H]
  std::int64_t num_before = 0;               // U
};

PreparedRecurrence PrepareTitans(const TitansArgs& args);
TitansTokens AllTokens(const TitansArgs& args, const PreparedRecurrence& sizes);
// The memory and the momentum before the first token, [B,H,2,K,V].
at::Tensor InitialMemory(const TitansArgs& args, const PreparedRecurrence& sizes);
// The state after all tokens, of the memory and momentum at the start of the last chunk that is not
// full, or after the last, [B,H,2,K,V].
TitansState StateAfter(const TitansTokens& tokens, const at::Tensor& memory,
                       std::int64_t mini_batch_size);

// Inputs of the serial part: N chunks of M tokens, R = B H sequences. A chunk maps memory and
// momentum X, side by side along K, to mix X - writes^T (k X_memory - v).
struct TitansScan {
  at::Tensor k;       // [N R,M,K]
  at::Tensor v;       // [N R,M,V]
  at::Tensor writes;  // [N R,M,2K]
  at::Tensor mix;     // [N R,2,2]
  at::Tensor memory;  // before the first, [R,2K,V]
};

struct TitansScanned {
  at::Tensor memory;  // before each chunk and after the last, [(N+1) R,2K,V]
  at::Tensor errors;  // k X_memory - v, [N R,M,V]
};

// Differentiable once, by hand.
TitansScanned Scan(const TitansScan& scan);

}  // namespace mixerbench::kernels::titans
