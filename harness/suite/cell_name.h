// The names of cells: "mqar/gla/d_model=64,lr=0.003", which reports split into task, mixer and
// variant.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "base/value.h"
#include "harness/suite/cell.h"
#include "harness/suite/sweep.h"

namespace mixerbench::harness {

// The short name that a suite gives its mixer for reports, taken out of the model: it is no option,
// and changes no result. Empty when there is none. Throws ConfigError.
std::string TakeLabel(Value& model);

// Of the cell of a point; `keys` are those of the sweep's axes by their paths (reports::AxisKeys).
std::string CellNameOf(const SweepPoint& point, const Cell& cell, const std::string& label,
                       const std::map<std::string, std::string>& keys);

}  // namespace mixerbench::harness
