// Reports of results/ against the schema and the pages of today, whatever version wrote them.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/render/markdown_page.h"
#include "reports/result/schema.h"
#include "reports/summary/sweep_report.h"
#include "reports/view/report_page.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {

namespace {

std::vector<std::filesystem::path> CommittedReports() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("results")) {
    if (entry.path().filename() == "report.json") paths.push_back(entry.path());
  }
  return paths;
}

}  // namespace

TEST_CASE("committed reports: each is valid by the schema") {
  const auto paths = CommittedReports();
  CHECK(paths.size() >= 10);
  for (const auto& path : paths) {
    CAPTURE(path.string());
    CHECK(ValidateReport(io::ParseJson(io::ReadFile(path))) == std::vector<std::string>());
  }
}

// When one fails: `mixerbench report FOLDER/report.json --format md > FOLDER/report.md`.
TEST_CASE("committed reports: each page is what the program makes of its report") {
  for (const auto& path : CommittedReports()) {
    CAPTURE(path.string());
    const SweepReport report = ParseSweep(io::ReadFile(path), path.string());
    const std::string page = io::ReadFile(path.parent_path() / "report.md");
    CHECK((page == RenderMarkdownPage(MakeReportPage(report))));  // a page is too long to show
  }
}

TEST_CASE("committed reports: a mean loss is below 0 by rounding alone") {
  const std::string text = io::ReadFile("results/cpu/quickstart/report.json");
  const auto faults_with = [&](double nll) {
    Value document = io::ParseJson(text);
    int num_rows = 0;
    for (Value& cell : document.as_object().at("cells").as_array()) {
      for (Value& row : cell.as_object().at("accuracy_by_length").as_array()) {
        row.as_object()["nll"] = nll;
        ++num_rows;
      }
    }
    REQUIRE(num_rows > 0);
    return ValidateReport(document).size();
  };
  CHECK(faults_with(-1.7e-7) == 0);
  CHECK(faults_with(-0.01) > 0);
}

}  // namespace mixerbench::reports
