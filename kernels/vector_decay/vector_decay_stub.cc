// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector_decay/vector_decay_cuda.h"

namespace mixerbench::kernels::vector_decay {

DeviceAttempt<RecurrenceResult> RunOnCuda(const RecurrenceArgs&, const PreparedRecurrence&) {
  return {{}, std::string(kOnCpu)};
}

std::optional<at::Tensor> RunRowsOnCuda(const RecurrenceArgs&, const PreparedRecurrence&) {
  return std::nullopt;
}

bool PrefersRowsOnCuda(const at::Tensor&, std::int64_t, std::int64_t, std::int64_t) {
  return false;
}

}  // namespace mixerbench::kernels::vector_decay
