// SPDX-License-Identifier: Apache-2.0
#include "harness/folder_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness/plan.h"
#include "reports/atomic_file.h"
#include "reports/html.h"
#include "reports/json.h"
#include "reports/markdown.h"
#include "reports/result_json.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;
using reports::CellResult;
using reports::CellState;

CellResult ReadResult(const fs::path& path) {
  return reports::ParseCell(reports::ReadFile(path, kMaxResultBytes), path.string());
}

// The folders of cells that hold a result, sorted by name.
std::vector<fs::path> FoldersWithResult(const fs::path& out) {
  const fs::path cells = out / "cells";
  if (!fs::is_directory(cells)) {
    throw Error(ExitCode::kBadInput,
                out.string() + ": no cells folder; give the output folder of a run");
  }
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(cells)) {
    if (fs::exists(entry.path() / "result.json")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// The result of a planned cell, or a row that says why there is none.
CellResult FindResult(const fs::path& out, const CellResult& planned) {
  const fs::path folder = CellFolder(out, planned.run_id);
  CellResult row = planned;
  if (fs::exists(folder / "events.jsonl")) {
    row.state = CellState::kInterrupted;
    row.reason = "no result: stopped, killed or still running; the same run continues it";
  }
  if (!fs::exists(folder / "result.json")) return row;
  try {
    CellResult result = ReadResult(folder / "result.json");
    if (result.run_id != planned.run_id) return row;
    result.name = planned.name;  // by what this plan sweeps
    return result;
  } catch (const Error&) {
    row.state = CellState::kInterrupted;
    row.reason = "its result.json is damaged; the same run makes it again";
    return row;
  }
}

// Why a result stands beside the plan.
std::string ReasonToLeaveOut(const CellResult& result, const std::set<std::string>& asked) {
  if (result.experiment_id.empty()) return "of an earlier version";
  return asked.contains(result.experiment_id + std::to_string(result.seed)) ? "of other code"
                                                                            : "of another plan";
}

std::vector<reports::LeftOut> FindLeftOut(const fs::path& out, const Plan& plan) {
  std::set<std::string> asked;
  std::set<fs::path> planned;
  for (const CellResult& cell : plan.cells) {
    asked.insert(cell.experiment_id + std::to_string(cell.seed));
    planned.insert(CellFolder(out, cell.run_id));
  }
  std::vector<reports::LeftOut> left_out;
  for (const fs::path& folder : FoldersWithResult(out)) {
    if (planned.contains(folder)) continue;
    try {
      const CellResult result = ReadResult(folder / "result.json");
      left_out.push_back(
          {result.run_id, result.name, result.seed, ReasonToLeaveOut(result, asked)});
    } catch (const Error&) {
      left_out.push_back({"", "cells/" + folder.filename().string(), 0, "unreadable"});
    }
  }
  return left_out;
}

// Of a folder without plan: what finished, under the name of the suite.
reports::SweepReport ReportOfFinished(const fs::path& out) {
  const fs::path path = out / "sweep.json";
  const Value suite = reports::ParseJson(reports::ReadFile(path, reports::JsonLimits{}.max_bytes));
  const Value* name = suite.Find("name");
  if (!name || !name->is_string()) {
    throw Error(ExitCode::kBadInput, path.string() + ": has no name");
  }
  std::vector<CellResult> cells;
  for (const fs::path& folder : FoldersWithResult(out)) {
    cells.push_back(ReadResult(folder / "result.json"));
  }
  return reports::MakeSweepReport(name->as_string(), suite, std::move(cells));
}

}  // namespace

reports::SweepReport ReportOf(const fs::path& out) {
  const std::optional<Plan> plan = ReadPlan(out);
  if (!plan) return ReportOfFinished(out);
  std::vector<CellResult> cells;
  for (const CellResult& planned : plan->cells) cells.push_back(FindResult(out, planned));
  reports::SweepReport report =
      reports::MakeSweepReport(plan->name, plan->config, std::move(cells));
  report.left_out = FindLeftOut(out, *plan);
  return report;
}

void WriteReports(const fs::path& out) {
  const FolderLock lock(out);
  const reports::SweepReport report = ReportOf(out);
  reports::WriteFileAtomically(out / "report.json", reports::DumpSweep(report));
  reports::WriteFileAtomically(out / "report.md", reports::RenderMarkdown(report));
  reports::WriteFileAtomically(out / "report.html", reports::RenderHtml(report));
}

}  // namespace mixerbench::harness
