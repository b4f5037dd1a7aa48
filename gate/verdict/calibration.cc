// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/calibration.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gate/verdict/shapes.h"
#include "gate/verdict/training_scores.h"
#include "io/json.h"
#include "io/object_reader.h"
#include "reports/result/device.h"
#include "reports/statistics/statistics.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::gate {
namespace {

constexpr double kTimesNoise = 3;
constexpr double kPercentile = 0.99;
constexpr std::string_view kVersion = "1.0.0";

double TimePercentile(const std::map<TimeKey, TimeSeries>& times) {
  std::vector<double> sizes;
  for (const auto& [key, series] : times) {
    sizes.push_back(std::abs(reports::Median(series.log_ratios)));
  }
  return reports::Percentile(sizes, kPercentile);
}

// Pooled over the experiments of a task: the root of the mean square of paired differences of what
// completed.
std::map<std::string, double> AccuracyNoiseOf(const Pairing& pairing) {
  std::map<std::string, std::pair<double, std::int64_t>> squares;
  for (const Experiment& experiment : pairing.experiments) {
    if (experiment.kind != "train") continue;
    const std::vector<TrainingScore> scores = ScoresOf(experiment);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const auto& [base, candidate] = experiment.pairs[i];
      if (!reports::IsWhole(*base) || !reports::IsWhole(*candidate)) continue;
      auto& [sum, count] = squares[reports::SplitCellName(experiment.cell).task];
      const double difference = scores[i].candidate.accuracy - scores[i].base.accuracy;
      sum += difference * difference;
      ++count;
    }
  }
  std::map<std::string, double> noise;
  for (const auto& [task, total] : squares) {
    noise[task] = std::sqrt(total.first / static_cast<double>(total.second));
  }
  return noise;
}

void Refuse(const std::string& why) { throw Error(ExitCode::kMissing, "--self: " + why); }

void CheckSameCode(const Side& base, const Side& candidate,
                   const std::map<TimeKey, TimeSeries>& times) {
  std::map<std::string, std::set<std::string>> codes;  // by experiment
  for (const Side* side : {&base, &candidate}) {
    for (const auto& cell : side->cells) {
      if (!cell.experiment_id.empty()) codes[cell.experiment_id].insert(cell.code_id);
    }
  }
  for (const auto& [key, series] : times) {
    codes[key.experiment_id].insert(series.base_codes.begin(), series.base_codes.end());
    codes[key.experiment_id].insert(series.candidate_codes.begin(), series.candidate_codes.end());
  }
  for (const auto& [experiment, of_experiment] : codes) {
    if (of_experiment.size() < 2) continue;
    Refuse("the two sides, or their pairs, are of different code; noise is that of one build");
  }
}

void CheckPairs(const std::map<TimeKey, TimeSeries>& times, std::int64_t num_pairs) {
  if (times.empty()) Refuse("no pair of processes was timed; --measure does, --pairs names them");
  for (const auto& [key, series] : times) {
    const auto found = static_cast<std::int64_t>(series.log_ratios.size());
    if (found >= num_pairs) continue;
    Refuse(fmt::format("{} of {} pairs of {}, {}", found, num_pairs, series.cell, ShapeText(key)));
  }
}

}  // namespace

double Calibration::LeastTimeGrowth() const { return std::expm1(kTimesNoise * time_p99); }

std::string RunnerOf(const Side& side) {
  std::set<std::string> runners;
  for (const auto& cell : side.cells) {
    if (!Ran(cell)) continue;
    std::string runner = reports::DeviceOf(cell);
    const Value* cuda = cell.environment.Find("cuda");
    if (cuda && !cuda->is_null()) runner += ", cuda " + io::DumpJson(*cuda);
    runners.insert(runner);
  }
  std::string joined;
  for (const std::string& runner : runners) joined += (joined.empty() ? "" : "; ") + runner;
  return joined;
}

Calibration Calibrate(const Side& base, const Side& candidate, const Timings& timings,
                      std::int64_t num_pairs, std::string made) {
  const std::map<TimeKey, TimeSeries> times = SeriesOf(timings.first);
  CheckPairs(times, num_pairs);
  CheckSameCode(base, candidate, times);
  Calibration calibration;
  calibration.runner = RunnerOf(candidate);
  calibration.made = std::move(made);
  calibration.num_times = static_cast<std::int64_t>(times.size());
  calibration.time_p99 = TimePercentile(times);
  calibration.accuracy_sd = AccuracyNoiseOf(PairCells(base, candidate));
  return calibration;
}

Value CalibrationToValue(const Calibration& calibration) {
  Object accuracy;
  for (const auto& [task, sd] : calibration.accuracy_sd) accuracy[task] = sd;
  return Object{{"schema_version", kVersion},
                {"kind", "calibration"},
                {"runner", calibration.runner},
                {"made", calibration.made},
                {"num_times", calibration.num_times},
                {"time_p99", calibration.time_p99},
                {"accuracy_sd", accuracy}};
}

Calibration CalibrationFromValue(const Value& value) {
  const io::ObjectReader reader(value, "");
  if (reader.String("kind") != "calibration" ||
      !reader.String("schema_version").starts_with("1.")) {
    throw Error(ExitCode::kBadInput, "/kind: no calibration of schema 1");
  }
  Calibration calibration;
  calibration.runner = reader.String("runner");
  calibration.made = reader.String("made");
  calibration.num_times = reader.Int("num_times");
  calibration.time_p99 = reader.Number("time_p99");
  const io::ObjectReader accuracy = reader.Nested("accuracy_sd");
  for (const auto& [task, sd] : reader.Member("accuracy_sd").as_object()) {
    calibration.accuracy_sd[task] = accuracy.Number(task);
  }
  return calibration;
}

}  // namespace mixerbench::gate
