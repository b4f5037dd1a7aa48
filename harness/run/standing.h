// Which results stay as they are when the command that made them is given again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "harness/run/options.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// Whether a cell has a result that stands under this policy. What runs ask of single cells besides
// is Reusable's (scheduler.h).
bool Stands(const reports::CellResult& result, RetryPolicy retry);

}  // namespace mixerbench::harness
