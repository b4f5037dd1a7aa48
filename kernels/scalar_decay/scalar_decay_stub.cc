// SPDX-License-Identifier: Apache-2.0
#include "kernels/scalar_decay/scalar_decay_cuda.h"

namespace mixerbench::kernels::scalar_decay {

DeviceAttempt<RecurrenceResult> RunOnCuda(const RecurrenceArgs&, const PreparedRecurrence&) {
  return {{}, std::string(kOnCpu)};
}

}  // namespace mixerbench::kernels::scalar_decay
