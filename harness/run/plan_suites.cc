// SPDX-License-Identifier: Apache-2.0
#include "harness/run/plan_suites.h"

namespace mixerbench::harness {

Array SuitesOf(const Value& config) {
  const Value* merged = config.Find("merged");
  return merged != nullptr && merged->is_array() ? merged->as_array() : Array{config};
}

}  // namespace mixerbench::harness
