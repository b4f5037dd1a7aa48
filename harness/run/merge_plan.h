// The plan of a run folder, when a command asks for cells in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "harness/run/options.h"
#include "harness/run/plan.h"
#include "harness/suite/registries.h"
#include "harness/suite/suite.h"

namespace mixerbench::harness {

// What a plan says of a cell.
reports::CellResult PlannedCell(const Cell& cell);

// A cell of a plan or a result as this program plans it: options that came since have their
// defaults. It has no ids yet. Throws ConfigError for what this program does not know.
Cell PlanAgain(const reports::CellResult& planned, const Registries& registries);

// `suite` holds the cells that are asked for now, `old` what the folder was for so far. A plan may
// grow, and a command may ask for a part of it: the plan is then the larger of the two. Where each
// has cells that the other has not, `policy` decides; the default refuses with Error(kOutput), and
// `out` says where. But cells that the old plan alone has leave it when this suite asks for all of
// their trainings, tested otherwise. Of what the plan chooses (`sweep.select`) a part may report
// more fresh seeds, and the plan then does; one that chooses otherwise is refused, whatever the
// policy but kReplace.
//
// Cells are the same when they ask the same with the same seed. Those of the old plan are
// identified anew by this program, so a plan is of one code: its cells of older code are to be run
// again.
Plan MergePlan(const std::optional<Plan>& old, const Suite& suite, PlanPolicy policy,
               const Registries& registries, const std::filesystem::path& out);

}  // namespace mixerbench::harness
