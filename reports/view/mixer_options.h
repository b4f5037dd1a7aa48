// Which options tell mixers of one name apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>

#include "reports/summary/sweep_report.h"
#include "reports/view/config_leaves.h"

namespace mixerbench::reports {

// The options of a cell's mixer by their paths in it.
Leaves MixerOptionsOf(const CellResult& cell);

// "gla,num_heads=4": the MixerKey of a cell with those of its options that are in `telling`.
std::string KeyWithOptions(const CellResult& cell, const std::set<std::string>& telling);

// A report of several suites, with the options in the names of cells and groups where suites have
// one mixer otherwise for one task and model, whatever the recipe, and its names do not say so.
// Nothing where there is no such mixer.
std::optional<SweepReport> WithOptionsInNames(const SweepReport& report);

}  // namespace mixerbench::reports
