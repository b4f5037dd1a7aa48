// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "kernels/vector_decay/vector_decay_kernels.h"
#include "kernels/vector_decay/vector_decay_layout.h"

namespace mixerbench::kernels::vector_decay {

bool PrefersFused(const FusedProblem& sizes, const cuda::DeviceLimits& limits) {
  const bool has_kernels =
      (sizes.key_dim == 16 || sizes.key_dim == 32 || sizes.key_dim == 64) &&
      (sizes.value_dim == sizes.key_dim || sizes.value_dim == 2 * sizes.key_dim) &&
      sizes.value_dim <= kMaxFusedValues;
  const std::int64_t num_sequences = sizes.batch_size * sizes.num_heads;
  // Tokens and sequences are counted in 32 bits.
  if (!has_kernels || sizes.seq_len > std::numeric_limits<std::int32_t>::max() - 2 * kFusedChunk ||
      num_sequences > std::numeric_limits<std::int32_t>::max()) {
    return false;
  }
  const FusedLayout layout(static_cast<int>(sizes.key_dim), static_cast<int>(sizes.value_dim),
                           FusedPass::kBackward);
  return layout.bytes <= limits.shared_memory_bytes &&
         2 * num_sequences > limits.num_multiprocessors;
}

std::int64_t FusedStateElements(const FusedProblem& sizes) {
  return sizes.batch_size * sizes.num_heads * NumFusedChunks(sizes.seq_len) * sizes.key_dim *
         sizes.value_dim;
}

}  // namespace mixerbench::kernels::vector_decay
