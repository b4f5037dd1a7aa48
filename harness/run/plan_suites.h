// The suites of a plan, which may be several that were merged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/value.h"

namespace mixerbench::harness {

// Of the config of a plan or of a report: itself, or {"merged": [suite, ...]}.
Array SuitesOf(const Value& config);

}  // namespace mixerbench::harness
