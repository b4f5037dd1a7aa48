// `report`, `schema` and `validate` of results: finished cells, their form, and whether they have
// it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "harness/commands.h"
#include "harness/run_folder_read.h"
#include "reports/atomic_file.h"
#include "reports/csv.h"
#include "reports/html.h"
#include "reports/json.h"
#include "reports/markdown.h"
#include "reports/result_json.h"
#include "reports/schema.h"
#include "reports/sweep_report.h"

namespace mixerbench::harness {
namespace {

constexpr std::size_t kMaxShownViolations = 3;

}  // namespace

ExitCode Report(const std::string& out, const std::string& format) {
  const std::filesystem::path folder = out;
  const Value config =
      reports::ParseJson(reports::ReadFile(folder / "sweep.json", reports::JsonLimits{}.max_bytes));
  const Value* name = config.Find("name");
  if (!name || !name->is_string()) {
    throw Error(ExitCode::kBadInput, (folder / "sweep.json").string() + ": has no name");
  }
  const auto report = reports::MakeSweepReport(name->as_string(), config, LoadAllResults(folder));
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
  return ExitCode::kOk;
}

bool ValidateResultFile(const std::string& file) {
  if (!std::filesystem::is_regular_file(file)) return false;
  const std::string text = reports::ReadFile(file);
  const Value document = reports::ParseJson(text, reports::kReportLimits);
  const Value* kind = document.Find("kind");
  if (!kind || !kind->is_string()) return false;
  const bool is_report = kind->as_string() == "sweep";
  if (!is_report && kind->as_string() != "run") return false;
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
