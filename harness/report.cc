// `report`, `schema` and `validate` of results: finished cells, their form, and whether they have
// it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "harness/commands.h"
#include "harness/folder_report.h"
#include "reports/atomic_file.h"
#include "reports/csv.h"
#include "reports/dataset_manifest.h"
#include "reports/html.h"
#include "reports/json.h"
#include "reports/labels.h"
#include "reports/markdown.h"
#include "reports/result_json.h"
#include "reports/schema.h"
#include "reports/sweep_report.h"

namespace mixerbench::harness {
namespace {

constexpr std::size_t kMaxShownViolations = 3;

// Whether the report is whole; in words on stderr, where the answer does not go.
ExitCode StateOf(const reports::SweepReport& report) {
  for (const std::string& note : reports::PlanNotes(report)) std::cerr << note << "\n";
  if (reports::CountMissing(report) > 0) return ExitCode::kMissing;
  const bool completed = std::all_of(
      report.cells.begin(), report.cells.end(),
      [](const reports::CellResult& cell) { return cell.state == reports::CellState::kCompleted; });
  return completed ? ExitCode::kOk : ExitCode::kCellsFailed;
}

}  // namespace

ExitCode Report(const std::string& out, const std::string& format) {
  const reports::SweepReport report = ReportOf(out);
  if (report.cells.empty()) {
    throw Error(ExitCode::kNothingSelected, out + ": no finished cells yet");
  }
  if (format == "json") {
    std::cout << reports::DumpSweep(report);
  } else if (format == "html") {
    std::cout << reports::RenderHtml(report);
  } else if (format == "csv") {
    std::cout << reports::RenderAccuracyCsv(report);
  } else {
    std::cout << reports::RenderMarkdown(report);
  }
  return StateOf(report);
}

bool ValidateResultFile(const std::string& file) {
  if (!std::filesystem::is_regular_file(file)) return false;
  const std::string text = reports::ReadFile(file);
  const Value document = reports::ParseJson(text, reports::kReportLimits);
  const Value* kind = document.Find("kind");
  if (!kind || !kind->is_string()) return false;
  if (kind->as_string() == "dataset") {
    reports::ParseManifest(text, file);
    std::cout << file << ": valid; `verify` compares the samples\n";
    return true;
  }
  const bool is_report = kind->as_string() == "sweep";
  if (!is_report && kind->as_string() != "run") {
    throw Error(ExitCode::kBadInput, file + ": kind '" + kind->as_string().substr(0, 40) +
                                         "' is none of run, sweep and dataset");
  }
  const auto violations =
      is_report ? reports::ValidateReport(document) : reports::ValidateCell(document);
  if (!violations.empty()) {
    std::string message = file + ": " + std::to_string(violations.size()) + " violations";
    for (std::size_t i = 0; i < std::min(violations.size(), kMaxShownViolations); ++i) {
      message += "; " + violations[i];
    }
    throw Error(ExitCode::kBadInput, message);
  }
  if (is_report) {
    reports::ParseSweep(text, file);  // checksums, and aggregates against their cells
  } else {
    reports::ParseCell(text, file);
  }
  std::cout << file << ": valid\n";
  return true;
}

ExitCode PrintSchema(const std::string& name) {
  std::cout << (name == "cell" ? reports::CellSchema() : reports::ReportSchema());
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
