// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reports/result/result.h"

namespace mixerbench::reports {

// The name of the GPU that a cell ran on; of the CPU when it ran there, also where a GPU stood
// idle beside it. Empty for a result that does not tell.
std::string DeviceOf(const CellResult& cell);

}  // namespace mixerbench::reports
