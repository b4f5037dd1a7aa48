// SPDX-License-Identifier: Apache-2.0
#include "reports/summary/metrics.h"

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/testing/test_cells.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

// All values at a dotted path, through every item of the lists on the way.
void Collect(const Value& value, const std::vector<std::string>& steps, std::size_t next,
             std::vector<Value>& found) {
  if (value.is_array()) {
    for (const Value& item : value.as_array()) Collect(item, steps, next, found);
  } else if (next == steps.size()) {
    found.push_back(value);
  } else if (const Value* member = value.Find(steps[next])) {
    Collect(*member, steps, next + 1, found);
  }
}

std::vector<Value> ValuesAt(const Value& report, std::string_view path) {
  std::vector<std::string> steps;
  std::istringstream stream{std::string(path)};
  for (std::string step; std::getline(stream, step, '.');) steps.push_back(step);
  std::vector<Value> found;
  Collect(report, steps, 0, found);
  return found;
}

Value Example() {
  std::vector<CellResult> cells = ExampleSweep(5);
  cells.push_back(ExampleCell());
  cells.back().accuracy.front().accuracy_macro = 0.5;
  return SweepToValue(MakeSweepReport("example", {}, std::move(cells)));
}

}  // namespace

TEST_CASE("metrics: each is a number of a report", "[reports]") {
  const Value report = Example();
  for (const Metric& metric : kMetrics) {
    CAPTURE(metric.name, metric.path);
    bool is_number = false;
    for (const Value& value : ValuesAt(report, metric.path)) is_number |= value.is_number();
    CHECK(is_number);
    CHECK_FALSE(metric.unit.empty());
    CHECK(metric.meaning.find('\n') == metric.meaning.npos);
  }
}

TEST_CASE("metrics: every number of a report's rows is one, or says what a row is of",
          "[reports]") {
  std::set<std::string> paths;
  for (const Metric& metric : kMetrics) CHECK(paths.insert(std::string(metric.path)).second);
  // Sizes, counts and bounds.
  const std::set<std::string> others = {"num_sequences",
                                        "num_scored",
                                        "num_correct",
                                        "chance",
                                        "ceiling",
                                        "batch_size",
                                        "seq_len",
                                        "samples",
                                        "warmup_iterations",
                                        "step",
                                        "elapsed_s",
                                        "lr",
                                        "throttled_samples_dropped",
                                        "energy_j"};
  const Value report = Example();
  for (const char* rows :
       {"cells.accuracy_by_length", "cells.throughput", "cells.learning_curve"}) {
    for (const Value& row : ValuesAt(report, rows)) {
      for (const auto& [name, value] : row.as_object()) {
        CAPTURE(rows, name);
        if (value.is_number()) {
          CHECK((others.contains(name) || paths.contains(std::string(rows) + "." + name)));
        }
      }
    }
  }
}

}  // namespace mixerbench::reports
