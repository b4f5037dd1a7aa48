// SPDX-License-Identifier: Apache-2.0
#include "harness/run/verdict_outputs.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <unistd.h>
#include <utility>

#include "harness/run/collection_report.h"
#include "harness/run/folder_report.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/export/run_outputs.h"
#include "reports/render/html_page.h"
#include "reports/render/markdown_page.h"
#include "reports/score/score.h"
#include "reports/summary/merge_reports.h"
#include "reports/view/report_page.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

void WriteForCi(const VerdictOutputs& outputs, const std::vector<reports::SweepReport>& reports,
                std::span<const std::string> folders_not_begun, ExitCode code) {
  std::vector<std::string> not_begun;
  for (const fs::path folder : folders_not_begun) not_begun.push_back(folder.filename().string());
  if (!outputs.junit_file.empty()) {
    WriteOutput(outputs.junit_file, reports::RenderCellsJUnit(reports, not_begun));
  }
  if (outputs.job_summary.empty()) return;
  std::string pages;
  for (const reports::SweepReport& report : reports) {
    pages += reports::RenderMarkdownPage(reports::MakeReportPage(report)) + "\n";
  }
  AppendJobSummary(outputs.job_summary, reports::RenderRunSummary(reports, code, pages, not_begun));
  std::cerr << reports::RenderRunAnnotations(reports);
}

// Whether `folder` is `out` or one above it.
bool IsMadeWith(const fs::path& folder, const fs::path& out) {
  const fs::path above = fs::absolute(folder).lexically_normal();
  const fs::path below = (fs::absolute(out) / "").lexically_normal();
  return std::mismatch(above.begin(), above.end(), below.begin(), below.end()).first == above.end();
}

bool HoldsRun(const fs::path& folder) {
  std::error_code error;  // of a folder that may not be read
  return fs::is_regular_file(folder / "sweep.json", error);
}

// Of the files in a run folder those that anyone may have written there: nothing is read from them.
bool MayBeAskedFor(const fs::path& path) {
  const fs::path name = path.filename();
  return name == "report.html" || name == "report.md" || path.extension() == ".log";
}

}  // namespace

fs::path FolderOf(const fs::path& file) {
  return fs::weakly_canonical(fs::absolute(file)).parent_path();
}

void RequireNotInTheWay(const std::string& option, const std::string& file, const fs::path& out) {
  if (file.empty()) return;
  const fs::path nearest = FolderOf(file);
  const fs::path own = out.empty() ? out : FolderOf(out / "any");
  for (fs::path folder = nearest;; folder = folder.parent_path()) {
    if (folder != own && !HoldsRun(folder)) {
      if (!folder.has_relative_path()) return;
      continue;
    }
    if (folder == nearest && MayBeAskedFor(file)) return;
    throw ConfigError(option, file +
                                  " would lie in the run folder, which takes no file that is not "
                                  "its own; choose another place, or for a log a name in .log");
  }
}

void RequireNotInTheWay(const VerdictOutputs& outputs, const fs::path& out) {
  RequireNotInTheWay("--html", outputs.html_file, out);
  RequireNotInTheWay("--junit", outputs.junit_file, out);
  RequireNotInTheWay("--github-summary", outputs.job_summary, out);
}

void RequireWritable(const std::string& option, const std::string& file, const fs::path& out) {
  if (file.empty()) return;
  RequireNotInTheWay(option, file);
  std::error_code error;
  const fs::path folder = fs::path(file).has_parent_path() ? fs::path(file).parent_path() : ".";
  if (!out.empty() && !fs::exists(folder, error) && IsMadeWith(folder, out)) return;
  try {
    const io::AtomicFile probe(file);  // never committed: leaves nothing
  } catch (const Error& cause) {
    throw ConfigError(option, cause.what());
  }
}

void RequireWritable(const VerdictOutputs& outputs, const fs::path& out) {
  RequireWritable("--html", outputs.html_file, out);
  RequireWritable("--junit", outputs.junit_file, out);
  RequireNotInTheWay("--github-summary", outputs.job_summary);
  // Appended to, so that it may be a device, and its folder another's.
  if (access(outputs.job_summary.c_str(), W_OK) == 0) return;
  RequireWritable("--github-summary", outputs.job_summary, out);
}

std::string JobSummaryFile(const std::string& given) {
  if (!given.empty()) return given;
  const char* variable = std::getenv("GITHUB_STEP_SUMMARY");
  if (variable == nullptr || *variable == '\0') {
    throw ConfigError("--github-summary", "GITHUB_STEP_SUMMARY is not set; give a file");
  }
  return variable;
}

void WriteOutput(const std::string& file, const std::string& text) {
  if (file.empty()) return;
  io::WriteFileAtomically(file, text);
  std::cerr << fs::absolute(file).string() << "\n";
}

void AppendJobSummary(const std::string& file, const std::string& text) {
  std::ofstream stream(file, std::ios::app | std::ios::binary);
  stream << text << std::flush;
  if (!stream) throw Error(ExitCode::kOutput, file + ": cannot append the job summary");
}

void WriteVerdicts(const VerdictOutputs& outputs, std::vector<reports::SweepReport> reports,
                   std::span<const std::string> not_begun, ExitCode code) {
  WriteForCi(outputs, reports, not_begun, code);
  if (outputs.html_file.empty() && !outputs.json) return;
  const reports::SweepReport all = reports::MergeReports(std::move(reports));
  if (!outputs.html_file.empty()) {
    WriteOutput(outputs.html_file, reports::RenderHtmlPage(reports::MakeReportPage(all)));
  }
  if (outputs.json) std::cout << reports::DumpSweep(all);
}

void WriteCollectionVerdicts(const VerdictOutputs& outputs, const fs::path& out, ExitCode code) {
  if (!outputs.AnyWanted()) return;
  std::vector<reports::SweepReport> reports;
  const RunsBelow runs = FindReports(out);
  for (const std::string& path : runs.reports) reports.push_back(ReadReport(path));
  if (reports.empty()) return WriteForCi(outputs, reports, runs.not_begun, code);
  const auto score = ScoreOf(out);
  if (!score) return WriteVerdicts(outputs, std::move(reports), runs.not_begun, code);
  WriteForCi(outputs, reports, runs.not_begun, code);
  if (!outputs.html_file.empty()) {
    WriteOutput(outputs.html_file, reports::RenderHtmlPage(reports::MakeScorePage(*score)));
  }
  if (outputs.json) std::cout << io::DumpJson(reports::ScoreToValue(*score), 2);
}

}  // namespace mixerbench::harness
