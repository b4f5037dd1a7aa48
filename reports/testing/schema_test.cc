// The other implementation of the same judgements is in schema_crosscheck.sh.
// SPDX-License-Identifier: Apache-2.0
#include "reports/result/schema.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/dataset_manifest.h"
#include "io/json.h"
#include "reports/result/result_json.h"
#include "reports/testing/schema_examples.h"
#include "reports/testing/test_cells.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

std::vector<std::string> FaultsOf(const SchemaExample& example) {
  if (example.kind == "cell") return ValidateCell(example.document);
  if (example.kind == "report") return ValidateReport(example.document);
  if (example.kind == "leaderboard") return ValidateLeaderboard(example.document);
  if (example.kind == "score") return ValidateScore(example.document);
  return ValidateDataset(example.document);
}

TEST_CASE("schema: every cell and every report of the examples is valid") {
  CHECK(ValidateCell(CellToValue(ExampleCell())) == std::vector<std::string>());
  for (const CellResult& cell : ExampleSweep()) {
    CAPTURE(cell.name, cell.seed);
    CHECK(ValidateCell(CellToValue(cell)) == std::vector<std::string>());
  }
  for (const SchemaExample& example : SchemaExamples()) {
    CAPTURE(example.name);
    const auto faults = FaultsOf(example);
    CAPTURE(faults);
    CHECK(faults.empty() == example.is_valid);
  }
}

TEST_CASE("schema: auxiliary losses are numbers, or null where one was not finite") {
  CellResult cell = ExampleCell();
  cell.learning_curve.back().auxiliary_losses = {{"balance", 1.25}, {"z", std::nan("")}};
  Value document = CellToValue(cell);
  CHECK(ValidateCell(document) == std::vector<std::string>());
  Value& point = document.as_object()["learning_curve"].as_array().back();
  point.as_object()["auxiliary_losses"].as_object()["balance"] = "much";
  CHECK_FALSE(ValidateCell(document).empty());
}

// Every name under any "properties" of a schema.
void CollectKeys(const Value& schema, std::set<std::string>& keys) {
  if (schema.is_array()) {
    for (const Value& item : schema.as_array()) CollectKeys(item, keys);
  }
  if (!schema.is_object()) return;
  for (const auto& [key, value] : schema.as_object()) {
    if (key == "properties") {
      for (const auto& [name, property] : value.as_object()) keys.insert(name);
    }
    CollectKeys(value, keys);
  }
}

TEST_CASE("schema: what reads a manifest accepts what its schema does") {
  for (const SchemaExample& example : SchemaExamples()) {
    if (example.kind != "dataset") continue;
    CAPTURE(example.name);
    const std::string text = io::DumpJson(example.document);
    if (example.is_valid) {
      CHECK_NOTHROW(io::ParseManifest(text, "m"));
    } else {
      CHECK_THROWS_AS(io::ParseManifest(text, "m"), Error);
    }
  }
}

void CheckDescribed(const std::string& page, const std::set<std::string>& keys) {
  for (const std::string& key : keys) {
    CAPTURE(key);
    // A name stands in code, as a step of a path or in quotes.
    bool is_described = page.find("\"" + key + "\"") != page.npos;
    for (const char* before : {"`", "."}) {
      for (const char* after : {"`", ".", "[]"}) {
        is_described = is_described || page.find(before + key + after) != page.npos;
      }
    }
    CHECK(is_described);
  }
}

TEST_CASE("schema: docs/DATA.md describes every key of a manifest") {
  std::set<std::string> keys;
  CollectKeys(io::ParseJson(DatasetSchema()), keys);
  CHECK(keys.size() > 20);
  CheckDescribed(io::ReadFile("docs/DATA.md"), keys);
}

TEST_CASE("schema: docs/REPORT_SCHEMA.md describes every key") {
  const std::string page = io::ReadFile("docs/REPORT_SCHEMA.md");
  std::set<std::string> keys;
  for (const auto schema : {CellSchema(), ReportSchema(), LeaderboardSchema(), ScoreSchema()}) {
    CollectKeys(io::ParseJson(schema), keys);
  }
  CHECK(keys.size() > 90);
  CheckDescribed(page, keys);
  CHECK_THAT(page, Catch::Contains("version " + std::string(kSchemaVersion)));
}

TEST_CASE("schema: faults name their place") {
  Value cell = CellToValue(ExampleCell());
  cell.as_object()["accuracy_by_length"].as_array()[3].as_object()["accuracy"] = 1.5;
  const auto faults = ValidateCell(cell);
  REQUIRE_FALSE(faults.empty());
  CHECK_THAT(faults.back() + faults.front(), Catch::Contains("/accuracy_by_length/3"));
}

}  // namespace
}  // namespace mixerbench::reports
