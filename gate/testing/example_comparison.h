// A comparison with a row of every kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gate/verdict/comparison.h"

namespace mixerbench::gate {

// Hostile: its names and reasons try to break out of every format.
Comparison ExampleComparison(bool is_hostile);

}  // namespace mixerbench::gate
