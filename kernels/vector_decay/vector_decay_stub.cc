// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector_decay/vector_decay_cuda.h"

namespace mixerbench::kernels::vector_decay {

DeviceAttempt<RecurrenceResult> RunOnCuda(const RecurrenceArgs&, const PreparedRecurrence&) {
  return {{}, std::string(kOnCpu)};
}

}  // namespace mixerbench::kernels::vector_decay
