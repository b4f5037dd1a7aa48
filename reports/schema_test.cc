// Writes good and broken documents for the test of the same schemas by another implementation
// (schema_crosscheck.py), after checking that ours judges them right.
// SPDX-License-Identifier: Apache-2.0
#include "reports/schema.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "reports/json.h"
#include "reports/result_json.h"
#include "reports/schema_examples.h"
#include "reports/test_cells.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

TEST_CASE("schema: every cell and every report of the examples is valid") {
  CHECK(ValidateCell(CellToValue(ExampleCell())) == std::vector<std::string>());
  for (const CellResult& cell : ExampleSweep()) {
    CAPTURE(cell.name, cell.seed);
    CHECK(ValidateCell(CellToValue(cell)) == std::vector<std::string>());
  }
  for (const SchemaExample& example : SchemaExamples()) {
    CAPTURE(example.name);
    const auto faults =
        example.is_report ? ValidateReport(example.document) : ValidateCell(example.document);
    CAPTURE(faults);
    CHECK(faults.empty() == example.is_valid);
  }
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
