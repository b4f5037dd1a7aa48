// SPDX-License-Identifier: Apache-2.0
#include "reports/testing/schema_examples.h"

#include <functional>
#include <utility>

#include "reports/result/result_json.h"
#include "reports/summary/sweep_report.h"
#include "reports/testing/test_cells.h"

namespace mixerbench::reports {
namespace {

Value& Member(Value& value, std::string_view key) { return value.as_object().find(key)->second; }

struct Fault {
  std::string name;
  std::function<void(Value&)> make;
};

std::vector<Fault> CellFaults() {
  return {
      {"missing_state", [](Value& v) { v.as_object().erase("state"); }},
      {"other_major", [](Value& v) { Member(v, "schema_version") = "2.0.0"; }},
      {"other_kind", [](Value& v) { Member(v, "kind") = "sweep"; }},
      {"short_run_id", [](Value& v) { Member(Member(v, "identity"), "run_id") = "sha256:12"; }},
      {"negative_seed", [](Value& v) { Member(Member(v, "identity"), "seed") = -1; }},
      {"unknown_state", [](Value& v) { Member(Member(v, "state"), "value") = "fine"; }},
      {"failed_without_reason", [](Value& v) { Member(Member(v, "state"), "value") = "oom"; }},
      {"accuracy_above_one",
       [](Value& v) { Member(Member(v, "accuracy_by_length").as_array()[0], "accuracy") = 1.01; }},
      {"completed_without_accuracy",
       [](Value& v) { Member(Member(v, "accuracy_by_length").as_array()[0], "accuracy") = {}; }},
      {"row_failed_without_reason",
       [](Value& v) { Member(Member(v, "accuracy_by_length").as_array()[0], "state") = "oom"; }},
      {"count_as_text",
       [](Value& v) {
         Member(Member(v, "accuracy_by_length").as_array()[0], "num_scored") = "12";
       }},
      {"other_unit", [](Value& v) { Member(Member(v, "throughput").as_array()[0], "unit") = "s"; }},
      {"completed_without_samples",
       [](Value& v) { Member(Member(v, "throughput").as_array()[0], "samples") = Array{}; }},
      {"local_time", [](Value& v) { Member(Member(v, "time"), "started") = "2026-11-21 08:00"; }},
      {"zero_parameters", [](Value& v) { Member(Member(v, "model_facts"), "num_parameters") = 0; }},
  };
}

std::vector<Fault> ReportFaults() {
  const auto aggregate = [](Value& v) -> Value& {
    return Member(Member(v, "groups").as_array()[0], "aggregate");
  };
  return {
      {"missing_cells", [](Value& v) { v.as_object().erase("cells"); }},
      {"broken_cell",
       [](Value& v) { Member(v, "cells").as_array()[1].as_object().erase("config"); }},
      {"unknown_state_count",
       [=](Value& v) { Member(aggregate(v), "states").as_object()["fine"] = 1; }},
      {"mean_above_one",
       [=](Value& v) {
         Member(Member(aggregate(v), "accuracy_by_length").as_array()[0], "mean") = 2;
       }},
      {"interval_without_reliable",
       [=](Value& v) {
         Member(Member(aggregate(v), "accuracy_by_length").as_array()[0], "ci_seeds")
             .as_object()
             .erase("reliable");
       }},
      {"guess_above_one",
       [=](Value& v) {
         Value& row = Member(aggregate(v), "accuracy_by_length").as_array()[0];
         Member(Member(row, "guesses").as_array()[1], "accuracy") = 1.5;
       }},
      {"solve_rate_of_none",
       [=](Value& v) { Member(Member(aggregate(v), "solve_rate"), "n") = 0; }},
  };
}

void AddAll(std::vector<SchemaExample>& examples, const std::string& prefix, bool is_report,
            const Value& good, const std::vector<Fault>& faults) {
  examples.push_back({prefix + "_good", is_report, true, good});
  Value later = good;
  later.as_object()["schema_version"] = "1.9.0";
  later.as_object()["new_group"] = Object{{"x", 1}};
  examples.push_back({prefix + "_of_later_minor", is_report, true, std::move(later)});
  for (const Fault& fault : faults) {
    Value bad = good;
    fault.make(bad);
    examples.push_back({prefix + "_" + fault.name, is_report, false, std::move(bad)});
  }
}

}  // namespace

std::vector<SchemaExample> SchemaExamples() {
  std::vector<SchemaExample> examples;
  AddAll(examples, "cell", false, CellToValue(ExampleCell()), CellFaults());
  AddAll(examples, "report", true,
         SweepToValue(MakeSweepReport("mqar-length", Object{{"seeds", 5}}, ExampleSweep(5))),
         ReportFaults());
  return examples;
}

}  // namespace mixerbench::reports
