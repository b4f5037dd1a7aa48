// SPDX-License-Identifier: Apache-2.0
#include "harness/run/folder_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness/run/collection_folder.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/render/html_page.h"
#include "reports/render/markdown_page.h"
#include "reports/result/result_json.h"
#include "reports/view/report_page.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;
using reports::CellResult;
using reports::CellState;

CellResult ReadResult(const fs::path& path) {
  return reports::ParseCell(io::ReadFile(path, kMaxResultBytes), path.string());
}

// A path that should have been there, or holds something else.
Error NotFound(const fs::path& path, const std::string& what) {
  const std::string reason = fs::exists(path) ? what : "no such file or folder";
  return {ExitCode::kBadInput, path.string() + ": " + reason};
}

bool IsRunFolder(const fs::path& path) {
  return fs::is_regular_file(path / "sweep.json") && fs::is_directory(path / "cells");
}

// The folders of cells that hold a result, sorted by name.
std::vector<fs::path> FoldersWithResult(const fs::path& out) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(out / "cells")) {
    if (fs::exists(entry.path() / "result.json")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// "mqar/gla/lr=0.01" and 256 -> "mqar/gla/lr=0.01,batch_size=256": what a sweep over the batch size
// would call it.
std::string NameOfHalved(const std::string& name, const CellResult& result) {
  const Value* train = result.config.Find("train");
  const Value* batch_size = train ? train->Find("batch_size") : nullptr;
  if (batch_size == nullptr) return name;
  const std::string part = "batch_size=" + std::to_string(batch_size->as_int());
  const std::string asked = "batch_size=" + std::to_string(*result.halved_from);
  const reports::CellName parts = reports::SplitCellName(name);
  std::string variant;
  std::istringstream old(parts.variant);
  for (std::string item; std::getline(old, item, ',');) {
    if (item != asked) variant += item + ",";
  }
  return parts.task + "/" + parts.mixer + "/" + variant + part;
}

// Why a result stands beside the plan.
std::string ReasonToLeaveOut(const CellResult& result, const std::set<std::string>& asked) {
  if (result.experiment_id.empty()) return "of an earlier version";
  return asked.contains(result.experiment_id + std::to_string(result.seed)) ? "of other code"
                                                                            : "of another plan";
}

// Of a folder without plan: what finished, under the name of the suite.
reports::SweepReport ReportOfFinished(const fs::path& out) {
  const fs::path path = out / "sweep.json";
  const Value suite = io::ParseJson(io::ReadFile(path, io::JsonLimits{}.max_bytes));
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

// Where a report comes from.
struct Source {
  fs::path path;
  bool is_run = false;  // a folder of cells; else a report.json
};

// A run folder says itself what it is for (sweep.json) and holds its cells; a folder without them
// may hold a report, as they are published. Nothing when `path` is neither.
std::optional<Source> SourceOf(const fs::path& path) {
  if (fs::is_regular_file(path)) return Source{path};
  if (IsRunFolder(path)) return Source{path, true};
  if (fs::is_regular_file(path / "report.json")) return Source{path / "report.json"};
  return std::nullopt;
}

}  // namespace

std::optional<std::string> ReadResultText(const fs::path& cell_folder) {
  const fs::path path = cell_folder / "result.json";
  const auto is_absent = [&] {
    std::error_code error;
    return fs::status(path, error).type() == fs::file_type::not_found;
  };
  if (is_absent()) return std::nullopt;
  try {
    return io::ReadFile(path, kMaxResultBytes);
  } catch (const Error&) {
    if (is_absent()) return std::nullopt;  // another process has begun the cell anew
    throw;
  }
}

CellResult RowOf(const fs::path& out, const CellResult& planned) {
  const fs::path folder = CellFolder(out, planned.run_id);
  CellResult row = planned;
  if (fs::exists(folder / "events.jsonl")) {
    row.state = CellState::kInterrupted;
    row.reason = "no result: stopped, killed or still running; the same run continues it";
  }
  const auto text = ReadResultText(folder);
  if (!text) return row;
  try {
    CellResult result = reports::ParseCell(*text, (folder / "result.json").string());
    if (result.run_id != planned.run_id) return row;
    result.name = planned.name;  // by what this plan sweeps
    if (result.halved_from) result.name = NameOfHalved(planned.name, result);
    result.phase = planned.phase;
    return result;
  } catch (const Error&) {
    row.state = CellState::kInterrupted;
    row.reason = "its result.json is damaged; the same run makes it again";
    return row;
  }
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

std::vector<std::string> DamagedResults(const fs::path& out) {
  std::vector<std::string> damaged;
  for (const fs::path& folder : FoldersWithResult(out)) {
    const auto text = ReadResultText(folder);
    if (!text) continue;
    try {
      reports::ParseCell(*text, (folder / "result.json").string());
    } catch (const Error& error) {
      damaged.emplace_back(error.what());
    }
  }
  return damaged;
}

reports::SweepReport ReportOf(const fs::path& out, const Plan& plan) {
  std::vector<CellResult> cells;
  for (const CellResult& planned : plan.cells) cells.push_back(RowOf(out, planned));
  return reports::MakeSweepReport(plan.name, plan.config, std::move(cells));
}

reports::SweepReport ReportOf(const fs::path& out) {
  if (!IsRunFolder(out)) throw NotFound(out, "no run folder: give the output folder of a run");
  const std::optional<Plan> plan = ReadPlan(out);
  if (!plan) return ReportOfFinished(out);
  reports::SweepReport report = ReportOf(out, *plan);
  report.left_out = FindLeftOut(out, *plan);
  return report;
}

RunsBelow FindReports(const fs::path& path) {
  RunsBelow runs;
  if (const auto source = SourceOf(path)) {
    runs.reports = {source->path.string()};
    return runs;
  }
  if (!fs::is_directory(path)) return runs;
  const bool is_collection = IsCollection(path);
  std::set<fs::path> suites;
  if (is_collection) {
    for (const std::string& name : SuiteNamesOf(path)) suites.insert(path / name);
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    if (!entry.is_directory()) continue;
    const auto source = SourceOf(entry.path());
    if (!source) continue;
    const bool is_taken = !is_collection || suites.erase(entry.path()) > 0;
    (is_taken ? runs.reports : runs.beside).push_back(source->path.string());
  }
  std::sort(runs.reports.begin(), runs.reports.end());
  std::sort(runs.beside.begin(), runs.beside.end());
  for (const fs::path& suite : suites) runs.not_begun.push_back(suite.string());
  return runs;
}

RunsBelow ReportsBelow(const fs::path& path) {
  RunsBelow runs = FindReports(path);
  if (!runs.reports.empty()) return runs;
  throw NotFound(path, runs.not_begun.empty() ? "no run folder and no report, nor holds it any"
                                              : "no suite of this collection has begun");
}

std::vector<std::string> NotesOn(const RunsBelow& runs) {
  std::vector<std::string> notes;
  for (const std::string& path : runs.not_begun) {
    notes.push_back("Not begun: " + path +
                    ", a suite of the collection, has no plan and no cells.");
  }
  for (const std::string& path : runs.beside) {
    notes.push_back("Left out: " + path + " is of no suite of the collection.");
  }
  return notes;
}

void RequireCells(const reports::SweepReport& report, const std::string& path) {
  if (!report.cells.empty()) return;
  throw Error(ExitCode::kNothingSelected, path + ": no finished cells yet");
}

bool HoldsReport(const fs::path& path) { return SourceOf(path).has_value(); }

reports::SweepReport ReadReport(const fs::path& path) {
  const auto source = SourceOf(path);
  if (!source) {
    std::string below;
    for (const std::string& report : FindReports(path).reports) below += " " + report;
    throw NotFound(path, "no run folder and no report" +
                             (below.empty() ? "" : ", but one of several; give one of" + below));
  }
  if (source->is_run) return ReportOf(source->path);
  return reports::ParseSweep(io::ReadFile(source->path, io::kReportLimits.max_bytes),
                             source->path.string());
}

void WriteReports(const fs::path& out) {
  const FolderLock lock(out);
  const reports::SweepReport report = ReportOf(out);
  io::WriteFileAtomically(out / "report.json", reports::DumpSweep(report));
  const reports::Page page = reports::MakeReportPage(report);
  io::WriteFileAtomically(out / "report.md", reports::RenderMarkdownPage(page));
  io::WriteFileAtomically(out / "report.html", reports::RenderHtmlPage(page));
}

}  // namespace mixerbench::harness
