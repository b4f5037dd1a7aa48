// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>

#include "gate/statistics/median_bootstrap.h"
#include "gate/verdict/shapes.h"
#include "gate/verdict/speed_gate.h"
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
    if (bootstrap.median() < std::log1p(least_growth)) {
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
    const double again = 100 * std::expm1(reports::Median(second->log_ratios));
    if (FailsRuleR(second->log_ratios, settings)) {
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

// Why the pairs of a stage say nothing of the two reports; "" where they do. `reported` may be
// null.
std::string ObstacleTo(const TimeSeries& series, const CellPair* reported) {
  const std::string other = reported ? OtherBuild(series, *reported) : "";
  if (!other.empty()) {
    return "The pairs were timed with another build than the report of " + other + " is of.";
  }
  return series.has_other_device ? "The processes of a pair ran on different devices." : "";
}

std::vector<Row> PairedRows(const std::vector<Experiment>& experiments, const Timings& timings,
                            const Calibration* calibration, const GateSettings& settings) {
  const std::map<std::string, CellPair> reported = TimedBy(experiments);
  const double least_growth =
      std::max(settings.time_margin, calibration ? calibration->LeastTimeGrowth() : 0);
  const std::map<TimeKey, TimeSeries> second = SeriesOf(timings.second);
  std::vector<Row> rows;
  for (const auto& [key, series] : SeriesOf(timings.first)) {
    Row row = TimeRow(key, series, settings);
    const auto found = second.find(key);
    const TimeSeries* again = found == second.end() ? nullptr : &found->second;
    DescribePairs(series, least_growth, settings, row);
    const auto num_pairs = static_cast<std::int64_t>(series.log_ratios.size());
    const auto report = reported.find(key.experiment_id);
    const CellPair* cells = report == reported.end() ? nullptr : &report->second;
    std::string obstacle = ObstacleTo(series, cells);
    if (obstacle.empty() && again) obstacle = ObstacleTo(*again, cells);
    if (!obstacle.empty()) {
      row.verdict = Verdict::kNotComparable;
      row.say = std::move(obstacle);
    } else if (!settings.judge_speed || num_pairs < kFewestSeeds) {
      row.verdict = Verdict::kNotGated;
      row.say =
          settings.judge_speed
              ? fmt::format("{} pairs; {} are the fewest that are judged.", num_pairs, kFewestSeeds)
              : "Preset " + settings.preset + " shows times and does not judge them.";
    } else if (num_pairs < settings.pairs) {
      row.verdict = Verdict::kInconclusive;
      row.say = fmt::format("{} of {} pairs.", num_pairs, settings.pairs);
    } else {
      const Judged judged = JudgePairs(series, again, least_growth, settings);
      row.verdict = judged.verdict;
      row.say = judged.say;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

bool FailsRuleR(std::span<const double> log_ratios, const GateSettings& settings) {
  const MedianBootstrap bootstrap(log_ratios);
  return bootstrap.median() > std::log1p(settings.time_margin) &&
         bootstrap.Quantile(settings.time_alpha) > 0;
}

std::vector<Row> TimeRows(const std::vector<Experiment>& experiments, const Timings& timings,
                          const Calibration* calibration, const GateSettings& settings) {
  if (!timings.first.empty()) return PairedRows(experiments, timings, calibration, settings);
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
