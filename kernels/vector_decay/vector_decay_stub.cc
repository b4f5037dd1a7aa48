// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector_decay/vector_decay_cuda.h"

namespace mixerbench::kernels::vector_decay {

std::optional<RecurrenceResult> RunOnCuda(const RecurrenceArgs&, const PreparedRecurrence&) {
  return std::nullopt;
}

}  // namespace mixerbench::kernels::vector_decay
