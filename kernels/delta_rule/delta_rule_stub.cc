// SPDX-License-Identifier: Apache-2.0
#include "kernels/delta_rule/delta_rule_cuda.h"

namespace mixerbench::kernels::delta_rule {

DeviceAttempt<RecurrenceResult> RunOnCuda(const RecurrenceArgs&, const PreparedRecurrence&) {
  return {{}, std::string(kOnCpu)};
}

}  // namespace mixerbench::kernels::delta_rule
