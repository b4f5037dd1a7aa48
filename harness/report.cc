// `report` and `schema`: finished results and their form on stdout.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>

#include "harness/commands.h"
#include "harness/run_folder_read.h"
#include "reports/atomic_file.h"
#include "reports/csv.h"
#include "reports/html.h"
#include "reports/json.h"
#include "reports/markdown.h"
#include "reports/schema.h"
#include "reports/sweep_report.h"

namespace mixerbench::harness {
namespace {

constexpr std::size_t kMaxSweepBytes = std::size_t{16} << 20;

}  // namespace

ExitCode Report(const std::string& out, const std::string& format) {
  const std::filesystem::path folder = out;
  const Value config =
      reports::ParseJson(reports::ReadFile(folder / "sweep.json", kMaxSweepBytes));
  const Value* name = config.Find("name");
  if (!name || !name->is_string()) {
    throw Error(ExitCode::kBadInput, (folder / "sweep.json").string() + ": has no name");
  }
  const auto report =
      reports::MakeSweepReport(name->as_string(), config, LoadAllResults(folder));
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

ExitCode PrintSchema(const std::string& name) {
  std::cout << (name == "cell" ? reports::CellSchema() : reports::ReportSchema());
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
