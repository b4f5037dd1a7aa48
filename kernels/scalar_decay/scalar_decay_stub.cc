// SPDX-License-Identifier: Apache-2.0
#include "kernels/scalar_decay/scalar_decay_cuda.h"

namespace mixerbench::kernels::scalar_decay {

std::optional<RecurrenceResult> RunOnCuda(const RecurrenceArgs&, const PreparedRecurrence&) {
  return std::nullopt;
}

}  // namespace mixerbench::kernels::scalar_decay
