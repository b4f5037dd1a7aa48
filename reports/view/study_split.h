// Which training groups of a task belong in one table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// Groups whose settings differ in nothing but what their names say and in their mixers.
struct TaskPart {
  std::string title;  // "mqar"; of several parts with what tells it apart: "mqar (64 tokens, d 32)"
  std::vector<const GroupSummary*> groups;
};

// The groups of one task. Those of one suite are one part, whatever it varies; where several suites
// were merged, those that differ in a size, a recipe or anything else that no name says are apart,
// since their results compare with nothing of each other. Ascending by what differs.
std::vector<TaskPart> SplitTask(const SweepReport& report, const std::string& task,
                                const std::vector<const GroupSummary*>& groups);

}  // namespace mixerbench::reports
