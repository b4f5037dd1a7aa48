// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

#include "gate/statistics/median_bootstrap.h"
#include "gate/verdict/shapes.h"
#include "gate/verdict/speed_gate.h"
#include "reports/result/device.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::gate {
namespace {

using reports::CellResult;

// The quantile 0.8 of the normal distribution, of the error that a bound stands for.
constexpr double kVisibleErrors = 0.8416;

std::string Ms(double ms) { return fmt::format("{:.3g} ms", ms); }

Row TimeRow(const TimeKey& key, const TimeSeries& series, const GateSettings& settings) {
  Row row;
  row.gate = Gate::kSpeed;
  row.metric = "time";
  row.cell = series.cell;
  row.where = ShapeText(key);
  row.experiment_id = key.experiment_id;
  row.base_value = reports::Median(series.base_ms);
  row.candidate_value = reports::Median(series.candidate_ms);
  row.base = Ms(*row.base_value);
  row.candidate = Ms(*row.candidate_value);
  row.margin = settings.time_margin;
  return row;
}

// The median of the pairs with its bounds, and what a true growth must be to be called one.
void DescribePairs(const TimeSeries& series, double margin, const GateSettings& settings,
                   Row& row) {
  const MedianBootstrap bootstrap(series.log_ratios);
  const double low = bootstrap.Quantile(settings.time_alpha);
  const double high = bootstrap.Quantile(1 - settings.time_alpha);
  row.effect = {EffectKind::kChange, std::expm1(bootstrap.median()), std::expm1(low),
                std::expm1(high), 1 - 2 * settings.time_alpha};
  row.test = "median_bootstrap";
  row.p_raw = bootstrap.Cdf(0);
  const double below = bootstrap.median() - low;  // some 2.3 errors of the median
  const double error = below / 2.326;
  row.would_have_seen = std::expm1(std::max(std::log1p(margin), below) + kVisibleErrors * error);
  row.would_have_seen_text = fmt::format("+{:.1f} %", 100 * *row.would_have_seen);
}

struct Judged {
  Verdict verdict;
  std::string say;
};

Judged JudgePairs(const TimeSeries& first, const TimeSeries* second, double least_growth,
                  const GateSettings& settings) {
  const MedianBootstrap bootstrap(first.log_ratios);
  const double margin = std::log1p(settings.time_margin);
  const double low = bootstrap.Quantile(settings.time_alpha);
  const double high = bootstrap.Quantile(1 - settings.time_alpha);
  if (FailsRuleR(first.log_ratios, settings)) {
    const double least = std::log1p(least_growth);
    if (bootstrap.median() < least) {
      return {
          Verdict::kInconclusive,
          fmt::format("Slower, but the runner's own noise reaches {:.1f} %.", 100 * least_growth)};
    }
    if (second == nullptr) {
      return {Verdict::kInconclusive, "Slower once; fresh pairs have not been measured."};
    }
    const auto fresh = static_cast<std::int64_t>(second->log_ratios.size());
    if (fresh < settings.pairs) {
      return {Verdict::kInconclusive,
              fmt::format("Slower once; {} of {} fresh pairs.", fresh, settings.pairs)};
    }
    const double median_again = reports::Median(second->log_ratios);
    const double again = 100 * std::expm1(median_again);
    if (FailsRuleR(second->log_ratios, settings)) {
      if (median_again < least) {
        return {Verdict::kInconclusive,
                fmt::format("Slower in both stages, but {:+.1f} % with fresh pairs is within the "
                            "runner's own noise, {:.1f} %.",
                            again, 100 * least_growth)};
      }
      return {Verdict::kRegression,
              fmt::format("Slower in both stages; again with fresh pairs: {:+.1f} %.", again)};
    }
    return {Verdict::kInconclusive,
            fmt::format("Slower in the first stage, not with fresh pairs: {:+.1f} %.", again)};
  }
  if (high < 0 && bootstrap.median() < -margin) return {Verdict::kImproved, "Faster."};
  if (high < margin) return {Verdict::kPass, "Within the margin."};
  const bool is_noisy = least_growth > settings.time_margin;
  return {Verdict::kInconclusive,
          is_noisy ? fmt::format("The runner is too noisy for {:.0f} % here (A/A: {:.1f} %).",
                                 100 * settings.time_margin, 100 * least_growth)
                   : fmt::format("The pairs scatter from {:+.1f} to {:+.1f} %.",
                                 100 * std::expm1(low), 100 * std::expm1(high))};
}

// The code behind the timings of the two reports, by experiment.
std::map<std::string, CellPair> TimedBy(const std::vector<Experiment>& experiments) {
  std::map<std::string, CellPair> timed;
  for (const Experiment& experiment : experiments) {
    if (experiment.kind == "throughput") timed.try_emplace(experiment.id, experiment.pairs.front());
  }
  return timed;
}

// Which side's report is of other code than the processes that were timed; "" where none is.
std::string OtherBuild(const TimeSeries& series, const CellPair& reported) {
  const auto is_other = [](const std::set<std::string>& codes, const CellResult& cell) {
    return codes != std::set<std::string>{cell.code_id};
  };
  if (is_other(series.candidate_codes, *reported.candidate)) return "new";
  return is_other(series.base_codes, *reported.base) ? "base" : "";
}

// Why the pairs of a stage say nothing of the two reports; "" where they do.
std::string ObstacleTo(const TimeSeries& series, const CellPair& reported) {
  const std::string other = OtherBuild(series, reported);
  if (!other.empty()) {
    return "The pairs were timed with another build than the report of " + other + " is of.";
  }
  if (series.has_other_device) return "The processes of a pair ran on different devices.";
  const std::string device = reports::DeviceOf(*reported.candidate);
  if (series.devices == std::set<std::string>{device}) return "";
  return fmt::format("The pairs ran on {}, the report of new is of {}.",
                     fmt::join(series.devices, ", "), device);
}

Judged JudgeShape(const TimeSeries& first, const TimeSeries* second, const CellPair* reported,
                  double least_growth, const GateSettings& settings) {
  if (!reported) return {Verdict::kNotComparable, "The two reports have no time of it."};
  std::string obstacle = ObstacleTo(first, *reported);
  // An older build's fresh pairs may lie there still: they are asked for where the first stage
  // fails.
  if (obstacle.empty() && second && FailsRuleR(first.log_ratios, settings)) {
    obstacle = ObstacleTo(*second, *reported);
  }
  if (!obstacle.empty()) return {Verdict::kNotComparable, std::move(obstacle)};
  if (!settings.judge_speed) {
    return {Verdict::kNotGated,
            "Preset " + settings.preset + " shows times and does not judge them."};
  }
  const auto num_pairs = static_cast<std::int64_t>(first.log_ratios.size());
  if (num_pairs < settings.pairs) {
    return {Verdict::kInconclusive, fmt::format("{} of {} pairs.", num_pairs, settings.pairs)};
  }
  if (num_pairs < kFewestSeeds) {
    return {Verdict::kNotGated,
            fmt::format("{} pairs; {} are the fewest that are judged.", num_pairs, kFewestSeeds)};
  }
  return JudgePairs(first, second, least_growth, settings);
}

// Shapes that both reports have a time of and no pair of processes.
void AddUnpaired(const std::map<std::string, CellPair>& reported,
                 const std::map<TimeKey, TimeSeries>& first, const GateSettings& settings,
                 std::vector<Row>& rows) {
  for (const auto& [id, cells] : reported) {
    for (const auto& [key, series] : SeriesOf({{{*cells.base}, {*cells.candidate}, false}})) {
      if (first.contains(key)) continue;
      Row row = TimeRow(key, series, settings);
      row.verdict = Verdict::kInconclusive;
      row.say = fmt::format("0 of {} pairs.", settings.pairs);
      rows.push_back(std::move(row));
    }
  }
}

std::vector<Row> PairedRows(const std::vector<Experiment>& experiments, const Timings& timings,
                            const Calibration* calibration, const GateSettings& settings) {
  const std::map<std::string, CellPair> reported = TimedBy(experiments);
  const double least_growth =
      std::max(settings.time_margin, calibration ? calibration->LeastTimeGrowth() : 0);
  const std::map<TimeKey, TimeSeries> first = SeriesOf(timings.first);
  const std::map<TimeKey, TimeSeries> second = SeriesOf(timings.second);
  const auto find = [](const auto& map, const auto& key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
  };
  std::vector<Row> rows;
  for (const auto& [key, series] : first) {
    Row row = TimeRow(key, series, settings);
    DescribePairs(series, least_growth, settings, row);
    Judged judged = JudgeShape(series, find(second, key), find(reported, key.experiment_id),
                               least_growth, settings);
    row.verdict = judged.verdict;
    row.say = std::move(judged.say);
    rows.push_back(std::move(row));
  }
  if (settings.judge_speed) AddUnpaired(reported, first, settings, rows);
  return rows;
}

}  // namespace

bool FailsRuleR(std::span<const double> log_ratios, const GateSettings& settings) {
  const MedianBootstrap bootstrap(log_ratios);
  return bootstrap.median() > std::log1p(settings.time_margin) &&
         bootstrap.Quantile(settings.time_alpha) > 0;
}

std::vector<Row> TimeRows(const std::vector<Experiment>& experiments, const Timings* timings,
                          const Calibration* calibration, const GateSettings& settings) {
  if (timings) return PairedRows(experiments, *timings, calibration, settings);
  std::vector<ProcessPair> stored(1);
  for (const Experiment& experiment : experiments) {
    for (const CellPair& pair : experiment.pairs) {
      stored.front().base.push_back(*pair.base);
      stored.front().candidate.push_back(*pair.candidate);
    }
  }
  std::vector<Row> rows;
  for (const auto& [key, series] : SeriesOf(stored)) {
    Row row = TimeRow(key, series, settings);
    row.effect = {EffectKind::kChange, std::expm1(series.log_ratios.front()), {}, {}, 0.98};
    row.verdict = series.has_other_device ? Verdict::kNotComparable : Verdict::kNotGated;
    row.say = series.has_other_device
                  ? "The two sides ran on different devices."
                  : "One process a side, at different times: --measure takes pairs.";
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace mixerbench::gate
