// The report of a run folder: one row for every cell of its plan.
//
// A cell without result is a row; a result that is no part of the plan, such as one of older code,
// is named and left out. A folder without plan, of an earlier version, has a row for every finished
// cell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/run/plan.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::harness {

inline constexpr std::size_t kMaxResultBytes = std::size_t{64} << 20;

// What stands in the result.json of a cell's folder; nothing where there is none. Throws
// Error(kBadInput) when it cannot be read: it may be whole, so it is not for a run to replace.
std::optional<std::string> ReadResultText(const std::filesystem::path& cell_folder);

// Throws Error(kBadInput) for a folder that is none of ours, and for results that cannot be read. A
// damaged result is none.
reports::SweepReport ReportOf(const std::filesystem::path& out);

// The same of a plan that may not be the folder's, without the results beside it.
reports::SweepReport ReportOf(const std::filesystem::path& out, const Plan& plan);

// The result of a planned cell, or a row that says why there is none: kPlanned or kInterrupted.
// Errors: as ReadResultText.
reports::CellResult RowOf(const std::filesystem::path& out, const reports::CellResult& planned);

// The results that lie in the folder without being those of its plan.
std::vector<reports::LeftOut> FindLeftOut(const std::filesystem::path& out, const Plan& plan);

// A line for each result in the folder that is damaged, so that it counts as none; it names the
// file. Errors: as ReadResultText.
std::vector<std::string> DamagedResults(const std::filesystem::path& out);

// What lies in a folder of several runs.
struct RunsBelow {
  std::vector<std::string> reports;    // run folders and report.json files, sorted
  std::vector<std::string> not_begun;  // folders of suites of its collection that hold neither
  std::vector<std::string> beside;     // reports that are of no suite of its collection, sorted
};

// Of a run folder or a report.json: itself. Of a folder of several, those directly in it; when it
// is a collection's (OUT/collection.json), those of the collection's suites. ReportsBelow throws
// Error(kBadInput) when there is no report. Both throw what SuiteNamesOf throws.
RunsBelow FindReports(const std::filesystem::path& path);
RunsBelow ReportsBelow(const std::filesystem::path& path);

// A line each for what has not begun and for what lies beside, for people.
std::vector<std::string> NotesOn(const RunsBelow& runs);

// The report of a run folder, of a report.json, or of a folder that holds one without its cells, as
// reports are published. HoldsReport says whether there is any of these.
bool HoldsReport(const std::filesystem::path& path);
reports::SweepReport ReadReport(const std::filesystem::path& path);

// Throws Error(kNothingSelected) for a report without cells; `path` is where it is from.
void RequireCells(const reports::SweepReport& report, const std::string& path);

// Writes report.json, report.md and report.html of what lies in the folder now. Of several
// processes that do so at once, the last has seen every finished cell.
void WriteReports(const std::filesystem::path& out);

}  // namespace mixerbench::harness
