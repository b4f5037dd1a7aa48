// Reports of results/ against the schema of today, whatever version wrote them.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/result/schema.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {

TEST_CASE("committed reports: each is valid by the schema") {
  std::size_t num_reports = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("results")) {
    if (entry.path().filename() != "report.json") continue;
    CAPTURE(entry.path().string());
    ++num_reports;
    CHECK(ValidateReport(io::ParseJson(io::ReadFile(entry.path()))) == std::vector<std::string>());
  }
  CHECK(num_reports >= 10);
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
