// What ran, for people: the plans of the cores, by mixer; beside a time the comparison, and the
// clocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// A core that ran by one plan for one reason, in the cells of one task and mixer.
struct PlanTableRow {
  std::string task;
  std::string mixer;
  FunctionPlan plan;      // scopes aside
  std::string execution;  // "graph", or "eager" with the reason on a GPU
  std::string runs;       // where: "fwd 512–32768, train_step 64"
};

// In order of task and mixer; all cells, also those that `sweep.select` hides elsewhere.
std::vector<PlanTableRow> PlansByMixer(const SweepReport& report);

// The columns for people, and a row's fields under them: plain text without markup.
std::vector<std::string> PlanColumns();
std::vector<std::string> PlanFields(const PlanTableRow& row);

inline constexpr const char* kPlanCaption =
    "Plans of the recurrences; lengths in tokens. result.json has those of all functions.";

// "passed, 0.0041 of 0.0097": the error and its tolerance; for a row without a time, why.
std::string ParityText(const ThroughputRow& row);

// "sw_thermal_slowdown; 2 of 12 samples dropped": why the GPU's clocks were lower, and what that
// cost; "" when they were not, or nobody knows.
std::string ThrottleText(const ThroughputRow& row);

}  // namespace mixerbench::reports
