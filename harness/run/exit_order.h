// Which exit code is told when several apply.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.h"

namespace mixerbench::harness {

// The one of the two that comes first in the order of base/error.h.
ExitCode First(ExitCode a, ExitCode b);

}  // namespace mixerbench::harness
