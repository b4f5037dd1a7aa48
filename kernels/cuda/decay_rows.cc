// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/decay_rows.h"

#include "kernels/cuda/decay_rows_layout.h"

namespace mixerbench::kernels::cuda {

bool HasDecayRowsKernel(const DecayRowsProblem& p, const DeviceLimits& limits) {
  if (p.key_dim != 16 && p.key_dim != 32 && p.key_dim != 64) return false;
  if (p.value_dim != p.key_dim && p.value_dim != 2 * p.key_dim) return false;
  // Offsets are ints; no device has as much shared memory for one block.
  if (p.seq_len > 1 << 16 || p.rows_per_sequence > p.seq_len) return false;
  const DecayRowsLayout layout(static_cast<int>(p.key_dim), static_cast<int>(p.value_dim),
                               DecayRowsCut(p.seq_len, p.rows_per_sequence), RowsPass::kBackward);
  return layout.bytes <= limits.shared_memory_bytes;
}

bool PrefersDecayRows(const DecayRowsProblem& p, const DeviceLimits& limits) {
  return 4 * p.rows_per_sequence <= p.seq_len && HasDecayRowsKernel(p, limits);
}

}  // namespace mixerbench::kernels::cuda
