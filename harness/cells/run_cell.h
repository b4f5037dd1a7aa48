// What every kind of cell begins and ends with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "harness/cells/train.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// The result of a cell whose rows `work` fills in, after its need of memory was found to be met.
// What `work` throws becomes the state and reason of the result.
reports::CellResult RunCell(const Cell& cell, at::Device device, const Registries& registries,
                            const std::function<void(reports::CellResult&)>& work);

// Throws Interrupted when a stop is requested, TimedOut when the cell's time is up.
void RequireTimeLeft(const RunControl& control);

}  // namespace mixerbench::harness
