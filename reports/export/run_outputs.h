// How the cells of runs ended, for CI: JUnit, a job summary, annotations. Names and reasons come
// from files of others and are escaped for each form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/error.h"
#include "reports/export/workflow_command.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// A testcase for each cell, in a testsuite for each task (of several suites, for each task of
// each): cells that completed in every segment pass, those that diverged, ran out of memory or time
// or broke down are errors, those that are unsupported or have no result yet are skipped, as is one
// for each suite of `not_begun`, of a collection that is to have reports which nobody has.
std::string RenderCellsJUnit(std::span<const SweepReport> reports,
                             std::span<const std::string> not_begun = {});

// Markdown: how many cells ended how, what has not begun, each cell that did not complete with its
// reason, and `pages`, the reports in Markdown, folded. At most `max_bytes`: the pages go first,
// then rows.
std::string RenderRunSummary(std::span<const SweepReport> reports, ExitCode code,
                             const std::string& pages, std::span<const std::string> not_begun = {},
                             std::size_t max_bytes = kMaxSummaryBytes);

// An error for each of the first cells that failed.
std::string RenderRunAnnotations(std::span<const SweepReport> reports);

}  // namespace mixerbench::reports
