// `score`: responses of a model to an export, read back and scored.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <iostream>

#include "harness/cli/commands.h"
#include "harness/dataset/response_scores.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "reports/statistics/error_range.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::harness {
namespace {

// Shares are printed as percentages, as RULER does.
double Shown(double value, double scale) { return scale == 1 ? 100 * value : value; }

std::string ScaleText(double scale) {
  if (scale == 0) return "";
  return fmt::format("of {:g}", scale == 1 ? 100 : scale);
}

Value IntervalValue(const std::optional<reports::Interval>& interval) {
  if (!interval) return {};
  return Object{{"method", interval->method},
                {"level", interval->level},
                {"low", interval->low},
                {"high", interval->high}};
}

Value RowValue(const ScoreRow& row) {
  return Object{{"metric", row.metric},
                {"score", row.score},
                {"scale", row.scale == 0 ? Value() : Value(row.scale)},
                {"num_samples", row.num_samples},
                {"ci_items", IntervalValue(row.interval)},
                {"chance", row.chance ? Value(*row.chance) : Value()}};
}

void PrintRow(const std::string& name, const ScoreRow& row) {
  std::string line =
      fmt::format("{:<19} {:>9.2f} {:<7}", name, Shown(row.score, row.scale), ScaleText(row.scale));
  if (row.interval) {
    line += fmt::format(" [{:.2f}, {:.2f}] {}", Shown(row.interval->low, row.scale),
                        Shown(row.interval->high, row.scale), row.interval->method);
  }
  if (row.chance) line += fmt::format("  chance {:.2f}", Shown(*row.chance, row.scale));
  std::cout << line << "\n";
}

// The runs of files of predictions with their references: one for all, or one for each.
std::vector<Run> ReadRuns(const std::vector<std::string>& predictions,
                          const ScoreOptions& options) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const std::string& references = options.references[options.references.size() == 1 ? 0 : i];
    runs.push_back(PairUp(ReadReferencesOf(references),
                          ReadPredictions(io::ReadFile(predictions[i]), predictions[i]),
                          options.allow_missing, predictions[i]));
  }
  return runs;
}

// Scores of all runs in the usual metric, as shares.
std::vector<double> RunScores(const std::vector<Run>& runs) {
  std::vector<double> scores;
  for (const Run& run : runs) {
    const ScoreRow row = ScoreRun(run).front();
    scores.push_back(row.scale == 0 ? row.score : row.score / row.scale);
  }
  return scores;
}

Value ErrorRangeValue(const std::vector<Run>& runs) {
  const auto range = reports::SummariseRuns(RunScores(runs), std::ssize(runs[0].references));
  return Object{{"num_runs", range.num_runs},
                {"mean", range.mean},
                {"sd", range.sd},
                {"min", range.min},
                {"max", range.max},
                {"range", range.max - range.min},
                {"within_variance", range.within_variance},
                {"between_variance", range.between_variance}};
}

// Samples that one variant answers fully and the other does not.
struct Discordant {
  std::int64_t only_a = 0;
  std::int64_t only_b = 0;
};

Discordant CompareAnswers(const std::vector<Run>& a, const std::vector<Run>& b) {
  Discordant counts;
  for (std::size_t r = 0; r < a.size(); ++r) {
    const ScoreRow row_a = ScoreRun(a[r]).front();
    const ScoreRow row_b = ScoreRun(b[r]).front();
    for (std::size_t i = 0; i < row_a.per_sample.size(); ++i) {
      const bool full_a = row_a.per_sample[i] == row_a.scale;
      const bool full_b = row_b.per_sample[i] == row_b.scale;
      counts.only_a += full_a && !full_b;
      counts.only_b += full_b && !full_a;
    }
  }
  return counts;
}

Value ComparisonValue(const std::vector<Run>& a, const std::vector<Run>& b) {
  const Discordant counts = CompareAnswers(a, b);
  Object object{{"only_these", counts.only_a},
                {"only_others", counts.only_b},
                {"mcnemar_p", reports::McNemarExact(counts.only_a, counts.only_b)},
                {"variance_ratio", Value()},
                {"variance_ratio_ci", Value()}};
  if (a.size() >= 2) {
    if (const auto ratio = reports::CompareVariances(RunScores(a), RunScores(b))) {
      object["variance_ratio"] = ratio->ratio;
      object["variance_ratio_ci"] = IntervalValue(ratio->interval);
    }
  }
  return object;
}

void CheckNumbers(const ScoreOptions& options) {
  if (options.references.size() != 1 && options.references.size() != options.predictions.size()) {
    throw ConfigError("--references", "give one file, or one for each file of predictions");
  }
  if (!options.against.empty() && options.against.size() != options.predictions.size()) {
    throw ConfigError("--against", "give as many files as there are files of predictions");
  }
}

}  // namespace

ExitCode ScorePredictions(const ScoreOptions& options) {
  CheckNumbers(options);
  const std::vector<Run> runs = ReadRuns(options.predictions, options);
  Array run_values;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::vector<ScoreRow> rows = ScoreRun(runs[r]);
    std::vector<ScoreGroup> groups;
    if (!options.by.empty()) groups = ScoreBy(runs[r], options.by);
    Array row_values, group_values;
    for (const ScoreRow& row : rows) row_values.push_back(RowValue(row));
    for (const ScoreGroup& group : groups) {
      Object value = RowValue(group.row).as_object();
      value["by"] = options.by;
      value["value"] = group.label;
      group_values.emplace_back(std::move(value));
    }
    run_values.emplace_back(Object{{"predictions", options.predictions[r]},
                                   {"scores", std::move(row_values)},
                                   {"groups", std::move(group_values)}});
    if (options.json) continue;
    std::cout << fmt::format("{}: {} samples\n", options.predictions[r], rows[0].num_samples);
    for (const ScoreRow& row : rows) PrintRow(row.metric, row);
    for (const ScoreGroup& group : groups) {
      PrintRow(fmt::format("  {} {}", options.by, group.label), group.row);
    }
  }
  Object result{{"runs", std::move(run_values)}};
  if (runs.size() >= 2 && runs[0].references.size() >= 2) {
    result["error_range"] = ErrorRangeValue(runs);
  }
  if (!options.against.empty()) {
    result["comparison"] = ComparisonValue(runs, ReadRuns(options.against, options));
  }
  if (options.json) {
    std::cout << io::DumpJson(result, 2);
    return ExitCode::kOk;
  }
  for (const char* name : {"error_range", "comparison"}) {
    const auto object = result.find(name);
    if (object == result.end()) continue;
    std::cout << name << "\n";
    for (const auto& [key, value] : object->second.as_object()) {
      std::cout << fmt::format("  {:<19} {}\n", key, io::DumpJson(value));
    }
  }
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
