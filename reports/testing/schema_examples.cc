// SPDX-License-Identifier: Apache-2.0
#include "reports/testing/schema_examples.h"

#include <functional>
#include <utility>

#include "io/dataset_manifest.h"
#include "io/json.h"
#include "reports/leaderboard/leaderboard.h"
#include "reports/result/result_json.h"
#include "reports/score/score.h"
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
      {"row_failed_without_chance",
       [](Value& v) {
         Value& row = Member(v, "accuracy_by_length").as_array()[0];
         Member(row, "state") = "oom";
         Member(row, "reason") = "3 GiB were wanted";
         Member(row, "chance") = Value();
       }},
      {"count_as_text",
       [](Value& v) {
         Member(Member(v, "accuracy_by_length").as_array()[0], "num_scored") = "12";
       }},
      {"other_unit", [](Value& v) { Member(Member(v, "throughput").as_array()[0], "unit") = "s"; }},
      {"completed_without_samples",
       [](Value& v) { Member(Member(v, "throughput").as_array()[0], "samples") = Array{}; }},
      {"local_time", [](Value& v) { Member(Member(v, "time"), "started") = "2026-11-21 08:00"; }},
      {"threads_as_text",
       [](Value& v) {
         Member(v, "environment").as_object()["cpu"] = Object{{"threads", "16"}};
       }},
      {"uuid_in_the_open",
       [](Value& v) {
         Member(Member(Member(Member(v, "time"), "machine"), "gpu"), "uuid_hash") = "GPU-6e2d1d3c";
       }},
      {"negative_energy", [](Value& v) { Member(Member(v, "time"), "energy_j") = -1.0; }},
      {"reasons_as_bits",
       [](Value& v) { Member(Member(v, "throughput").as_array()[1], "throttle") = Array{36}; }},
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
      {"group_without_chance",
       [=](Value& v) {
         Member(Member(aggregate(v), "accuracy_by_length").as_array()[0], "chance") = Value();
       }},
      {"selection_without_score",
       [](Value& v) {
         Member(v, "groups").as_array()[0].as_object()["selection"] =
             Object{{"score", Value()}, {"selected", false}};
       }},
      {"solve_rate_of_none",
       [=](Value& v) { Member(Member(aggregate(v), "solve_rate"), "n") = 0; }},
  };
}

std::vector<Fault> LeaderboardFaults() {
  const auto first = [](Value& v) -> Value& { return Member(v, "ranking").as_array()[0]; };
  return {
      {"missing_ranking", [](Value& v) { v.as_object().erase("ranking"); }},
      {"score_above_one", [=](Value& v) { Member(first(v), "score") = 1.5; }},
      {"band_without_method",
       [=](Value& v) { Member(first(v), "rank_band").as_object().erase("method"); }},
      {"rank_zero", [=](Value& v) { Member(Member(first(v), "rank_band"), "low") = 0; }},
      {"family_of_no_runs",
       [=](Value& v) {
         Member(Member(first(v), "families").as_object().begin()->second, "runs") = 0;
       }},
      {"setting_without_results",
       [](Value& v) { Member(v, "settings").as_array()[0].as_object().erase("results"); }},
      {"source_without_checksum",
       [](Value& v) { Member(v, "sources").as_array()[0].as_object().erase("content_sha256"); }},
      {"refusal_without_reason",
       [](Value& v) {
         Member(v, "refused").as_array().push_back(Object{{"what", "x"}});
       }},
  };
}

std::vector<Fault> ScoreFaults() {
  const auto first = [](Value& v) -> Value& { return Member(v, "scores").as_array()[0]; };
  return {
      {"unknown_metric", [](Value& v) { Member(v, "metric") = "nll"; }},
      {"weight_zero", [](Value& v) { Member(Member(v, "parts").as_array()[0], "weight") = 0; }},
      {"value_above_one",
       [=](Value& v) { Member(Member(first(v), "by_validation"), "value") = 1.5; }},
      {"complete_without_value", [=](Value& v) { Member(first(v), "by_test") = Value(); }},
      {"incomplete_with_value", [=](Value& v) { Member(first(v), "state") = "incomplete"; }},
      {"complete_with_missing",
       [=](Value& v) {
         Member(Member(first(v), "parts").as_array()[0], "missing") = Array{"a setting"};
       }},
      {"no_reason_for_no_interval",
       [=](Value& v) { Member(first(v), "by_test").as_object().erase("why_no_interval"); }},
  };
}

std::vector<Fault> DatasetFaults() {
  const auto part = [](Value& v) -> Value& { return Member(v, "parts").as_array()[0]; };
  const auto file = [=](Value& v) -> Value& { return Member(part(v), "files").as_array()[0]; };
  return {
      {"no_parts", [](Value& v) { Member(v, "parts") = Array{}; }},
      {"missing_seed", [](Value& v) { v.as_object().erase("seed"); }},
      {"seed_as_number", [](Value& v) { Member(v, "seed") = 7; }},
      {"negative_first", [=](Value& v) { Member(part(v), "first") = "-5"; }},
      {"count_of_none", [=](Value& v) { Member(part(v), "count") = 0; }},
      {"no_params", [=](Value& v) { Member(part(v), "params") = Array{}; }},
      {"warning_as_number", [=](Value& v) { Member(part(v), "warnings") = Array{1}; }},
      {"upper_case_hash",
       [=](Value& v) { Member(file(v), "sha256") = "sha256:" + std::string(64, 'A'); }},
      {"file_elsewhere", [=](Value& v) { Member(file(v), "name") = "../a.npy"; }},
      {"hidden_file", [=](Value& v) { Member(file(v), "name") = ".a.npy"; }},
  };
}

// Examples of every later minor version have keys that this one does not know.
void AddAll(std::vector<SchemaExample>& examples, const std::string& kind, const Value& good,
            const std::vector<Fault>& faults) {
  examples.push_back({kind + "_good", kind, true, good});
  Value later = good;
  later.as_object()["schema_version"] = "1.99.0";
  later.as_object()["new_group"] = Object{{"x", 1}};
  examples.push_back({kind + "_of_later_minor", kind, true, std::move(later)});
  for (const Fault& fault : faults) {
    Value bad = good;
    fault.make(bad);
    examples.push_back({kind + "_" + fault.name, kind, false, std::move(bad)});
  }
}

// The lengths of the example are its settings.
Value ExampleScore(const SweepReport& report) {
  const Object part = {{"suite", "recall"}, {"num_settings", 1}};
  const Value collection =
      Object{{"name", "example"},
             {"score", Object{{"name", "Recall"}, {"metric", "accuracy"}, {"parts", Array{part}}}}};
  const auto rule = ReadScoreRule(collection);
  return ScoreToValue(MakeScoreReport(collection, *rule, {{"recall", report}}));
}

Value ExampleManifest() {
  io::DatasetPart part{.name = "0",
                       .params = Object{{"vocab_size", 64}},
                       .canon = "mqar;L=16",
                       .count = 10,
                       .seq_len = 16,
                       .vocab_size = 64,
                       .sha256 = std::string(64, 'b'),
                       .warnings = {"one"}};
  part.files = {{.name = "a.npy", .count = 10, .num_bytes = 1408, .sha256 = std::string(64, 'c')}};
  return io::ParseJson(io::DumpManifest({.generator = Object{{"version", "0.1.0"}},
                                         .task = "mqar",
                                         .task_code = std::string(64, 'a'),
                                         .preset = "mqar/tiny",
                                         .labels = "scored",
                                         .format = "npy",
                                         .dtype = "I32",
                                         .parts = {part}}));
}

}  // namespace

std::vector<SchemaExample> SchemaExamples() {
  const SweepReport report = MakeSweepReport("mqar-length", Object{{"seeds", 5}}, ExampleSweep(5));
  std::vector<SchemaExample> examples;
  AddAll(examples, "cell", CellToValue(ExampleCell()), CellFaults());
  AddAll(examples, "report", SweepToValue(report), ReportFaults());
  AddAll(examples, "leaderboard", LeaderboardToValue(MakeLeaderboard({{"recall", report}}, 5)),
         LeaderboardFaults());
  AddAll(examples, "score", ExampleScore(report), ScoreFaults());
  AddAll(examples, "dataset", ExampleManifest(), DatasetFaults());
  return examples;
}

}  // namespace mixerbench::reports
