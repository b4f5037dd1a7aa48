// The second half of a sweep that reports fresh seeds (`sweep.select.reseed`): what validation
// chose is trained again by seeds that chose nothing. Which cells these are follows from the
// results in the folder, so a run may be stopped at any point and any process may go on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/run/plan.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::harness {

struct FreshSeeds {
  std::vector<Cell> cells;               // of the settings that are chosen
  std::vector<reports::Reseed> reseeds;  // of these and of those that are not yet
};

// What the results in `out` make of `plan`; nothing for a plan that reports the seeds that chose.
FreshSeeds FindFreshSeeds(const Plan& plan, const std::filesystem::path& out,
                          const Registries& registries);

// The same of the folder's plan, in which the cells are entered. They take the place of those of an
// earlier choice, whose results stay in the folder, beside the plan.
FreshSeeds PlanFreshSeeds(const std::filesystem::path& out, const Registries& registries);

// "3 chosen settings x 5 fresh seeds (1000000..1000004), 2 of them not chosen yet"; empty for none.
std::string FreshSeedsText(const std::vector<reports::Reseed>& reseeds);

}  // namespace mixerbench::harness
