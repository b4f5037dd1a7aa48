// SPDX-License-Identifier: Apache-2.0
#include "reports/charts.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <utility>

#include "reports/statistics.h"
#include "reports/text.h"

namespace mixerbench::reports {
namespace {

const ChartAxis kAccuracyAxis = {.label = "accuracy of scored positions, %",
                                 .scale = ChartAxis::Scale::kLinear,
                                 .format = ChartAxis::Format::kPercent,
                                 .categories = {},
                                 .low = 0,
                                 .high = 1};

std::optional<double> NumberAt(const Object& axes, const std::string& axis) {
  const auto found = axes.find(axis);
  if (found == axes.end() || !found->second.is_number()) return std::nullopt;
  return found->second.as_double();
}

// The numeric axes with more than one value over the whole segments of a task.
std::vector<std::string> VaryingAxes(const TaskView& view) {
  std::map<std::string, std::set<double>> values;
  for (const GroupSummary* group : view.groups) {
    for (const AccuracyOverSeeds& row : group->accuracy) {
      for (const auto& [axis, value] : row.axes) {
        if (value.is_number()) values[axis].insert(value.as_double());
      }
    }
  }
  std::vector<std::string> varying;
  for (const auto& [axis, found] : values) {
    if (found.size() > 1) varying.push_back(axis);
  }
  return varying;
}

ChartAxis AxisFor(const std::string& axis, const std::set<double>& values) {
  static const std::map<std::string, std::string> kUnits = {
      {"input_seq_len", "tokens"}, {"num_kv_pairs", "pairs"}, {"gap", "tokens"}};
  const auto unit = kUnits.find(axis);
  // Sizes double; shares and depths do not.
  const bool is_log =
      !values.empty() && *values.begin() > 0 && *values.rbegin() >= 4 * *values.begin();
  return {.label = axis + (unit == kUnits.end() ? "" : ", " + unit->second),
          .scale = is_log ? ChartAxis::Scale::kLog2 : ChartAxis::Scale::kLinear,
          .format = ChartAxis::Format::kPlain,
          .categories = {},
          .low = {},
          .high = {}};
}

std::string AccuracyNote(const std::string& label, const AccuracyOverSeeds& row) {
  std::string note = label + ", " + AxesText(row.axes);
  if (!row.bucket.empty()) note += ", " + row.slice + " " + row.bucket;
  const AccuracyText text = TextOf(row);
  if (row.mean) note += ": " + text.value + " %";
  if (!text.seeds.empty()) note += ", seeds " + text.seeds;
  if (!text.interval.empty()) note += ", 95 % interval " + text.interval;
  if (row.state != CellState::kCompleted) {
    note += fmt::format(" ({}{})", NameOf(row.state), row.reason.empty() ? "" : ": " + row.reason);
  }
  return note;
}

// From the lowest to the highest seed; of a single seed the interval over samples.
void SetSpread(const AccuracyOverSeeds& row, ChartPoint& point) {
  if (row.std) {
    point.low = row.min;
    point.high = row.max;
  } else if (row.ci_items) {
    point.low = row.ci_items->low;
    point.high = row.ci_items->high;
  }
}

// True when some group has several whole segments at one value of `axis`.
bool IsAveraged(const TaskView& view, const std::string& axis) {
  for (const GroupSummary* group : view.groups) {
    std::set<double> seen;
    for (const AccuracyOverSeeds& row : group->accuracy) {
      const auto x = NumberAt(row.axes, axis);
      if (row.slice.empty() && x && !seen.insert(*x).second) return true;
    }
  }
  return false;
}

// One point per value of `axis`. Where other axes vary at that value, their mean, without a band.
ChartSeries AccuracySeries(const GroupSummary& group, const std::string& axis,
                           const std::string& label, int style) {
  std::map<double, std::vector<const AccuracyOverSeeds*>> by_value;
  for (const AccuracyOverSeeds& row : group.accuracy) {
    const auto x = NumberAt(row.axes, axis);
    if (row.slice.empty() && x) by_value[*x].push_back(&row);
  }
  ChartSeries series{.label = label, .style = style, .is_faint = false, .points = {}};
  for (const auto& [x, rows] : by_value) {
    ChartPoint point;
    point.x = x;
    point.note = AccuracyNote(label, *rows.front());
    std::vector<double> means;
    for (const AccuracyOverSeeds* row : rows) {
      if (row->mean) means.push_back(*row->mean);
      point.failed = point.failed || AnyImputed(*row);
    }
    if (!means.empty()) point.y = Mean(means);
    if (rows.size() == 1) SetSpread(*rows.front(), point);
    series.points.push_back(std::move(point));
  }
  return series;
}

// The middle between the longest trained and the first longer length, on the axis' scale.
std::optional<double> ExtrapolationStart(const TaskView& view, const ChartAxis& axis,
                                         const std::string& name) {
  std::optional<double> trained;
  std::optional<double> beyond;
  for (const GroupSummary* group : view.groups) {
    for (const AccuracyOverSeeds& row : group->accuracy) {
      const auto x = NumberAt(row.axes, name);
      if (!x) continue;
      if (!row.extrapolated) trained = std::max(trained.value_or(*x), *x);
      if (row.extrapolated) beyond = std::min(beyond.value_or(*x), *x);
    }
  }
  if (!trained || !beyond || *beyond <= *trained) return std::nullopt;
  return axis.scale == ChartAxis::Scale::kLog2 ? std::sqrt(*trained * *beyond)
                                               : (*trained + *beyond) / 2;
}

std::string PercentLabel(const std::string& name, double share) {
  return name + " " + FormatPercent(share) + " %";
}

// A guess over the rows of a chart: a line where it scores alike everywhere, else a dash at each x.
void AddReference(const std::string& name, const std::map<double, std::set<double>>& by_x,
                  Chart& chart) {
  std::set<double> all;
  for (const auto& [x, shares] : by_x) all.insert(shares.begin(), shares.end());
  if (all.empty()) return;
  if (*all.rbegin() - *all.begin() < 1e-12) {
    chart.references.push_back({*all.begin(), PercentLabel(name, *all.begin())});
    return;
  }
  std::string label = name;  // once
  for (const auto& [x, shares] : by_x) {
    for (const double share : shares) {
      chart.references.push_back({share, std::exchange(label, ""), x});
    }
  }
}

// Chance and the strongest guess of whole segments. `place` gives the x of a row, or none.
template <typename Place>
void AddGuesses(const TaskView& view, Chart& chart, Place place) {
  std::map<double, std::set<double>> chance;
  std::map<double, std::set<double>> strongest;
  std::set<std::string> names;
  for (const GroupSummary* group : view.groups) {
    for (const AccuracyOverSeeds& row : group->accuracy) {
      const std::optional<double> x = row.slice.empty() ? place(row) : std::nullopt;
      if (!x) continue;
      chance[*x].insert(row.chance);
      const std::optional<Guess> guess = StrongestGuess(row.guesses);
      if (!guess || guess->accuracy <= row.chance) continue;
      strongest[*x].insert(guess->accuracy);
      names.insert(guess->name);
    }
  }
  AddReference("chance", chance, chart);
  AddReference(names.size() == 1 ? *names.begin() : "the strongest guess", strongest, chart);
}

void AddLearning(const CellResult& cell, const std::string& label, int style, bool is_loss,
                 std::vector<ChartSeries>& series) {
  ChartSeries line{.label = label, .style = style, .is_faint = true, .points = {}};
  for (const LearningPoint& p : cell.learning_curve) {
    ChartPoint point;
    point.x = static_cast<double>(p.step);
    if (!is_loss) {
      if (!p.validation_accuracy) continue;
      point.y = p.validation_accuracy;
    } else if (std::isfinite(p.train_loss)) {
      point.y = p.train_loss;
    }
    line.points.push_back(std::move(point));
  }
  if (line.points.empty()) return;
  if (cell.state != CellState::kCompleted) {
    line.points.back().failed = true;
    line.points.back().note = fmt::format("{}, seed {}: {}", label, cell.seed, cell.reason);
  }
  series.push_back(std::move(line));
}

// A line through the medians of the seeds, drawn over them and labelled.
ChartSeries MedianOf(const std::vector<ChartSeries>& seeds, const std::string& label, int style) {
  std::map<double, std::vector<double>> by_step;
  for (const ChartSeries& seed : seeds) {
    for (const ChartPoint& p : seed.points) {
      if (p.y) by_step[p.x].push_back(*p.y);
    }
  }
  ChartSeries median{.label = label, .style = style, .is_faint = false, .points = {}};
  for (const auto& [step, values] : by_step) {
    ChartPoint point;
    point.x = step;
    point.y = Median(values);
    median.points.push_back(std::move(point));
  }
  return median;
}

Chart LearningChart(const SweepReport& report, const TaskView& view, const Styles& styles,
                    bool is_loss) {
  Chart chart;
  chart.title = is_loss ? "Training loss" : "Learning curve";
  chart.x.label = "optimiser step";
  chart.x.low = 0;
  chart.has_reference_labels_right = true;
  chart.y = kAccuracyAxis;
  chart.y.label = "validation accuracy, %";
  if (is_loss) {
    chart.y = ChartAxis();
    chart.y.label = "cross-entropy, nats";
    chart.y.low = 0;
  }
  std::vector<ChartSeries> medians;
  std::set<double> thresholds;
  for (const GroupSummary* group : view.groups) {
    const std::string label = GroupLabel(view, *group);
    std::vector<ChartSeries> seeds;
    for (const CellResult& cell : CellsOf(report, *group)) {
      AddLearning(cell, label, styles.at(label), is_loss, seeds);
      if (!is_loss && cell.threshold > 0) thresholds.insert(cell.threshold);
    }
    if (seeds.empty()) continue;
    medians.push_back(MedianOf(seeds, label, styles.at(label)));
    std::move(seeds.begin(), seeds.end(), std::back_inserter(chart.series));
  }
  for (const double threshold : thresholds) {
    chart.references.push_back({threshold, PercentLabel("solved at", threshold)});
  }
  std::move(medians.begin(), medians.end(), std::back_inserter(chart.series));
  return chart;
}

}  // namespace

std::vector<Chart> AccuracyCharts(const TaskView& view, const Styles& styles) {
  std::vector<Chart> charts;
  for (const std::string& axis : VaryingAxes(view)) {
    Chart chart;
    chart.title = "Accuracy over " + axis + (IsAveraged(view, axis) ? ", mean over the rest" : "");
    chart.y = kAccuracyAxis;
    std::set<double> values;
    for (const GroupSummary* group : view.groups) {
      const std::string label = GroupLabel(view, *group);
      chart.series.push_back(AccuracySeries(*group, axis, label, styles.at(label)));
      for (const ChartPoint& p : chart.series.back().points) values.insert(p.x);
    }
    chart.x = AxisFor(axis, values);
    chart.shade_from_x = ExtrapolationStart(view, chart.x, axis);
    chart.shade_label = "longer than trained";
    AddGuesses(view, chart, [&](const auto& row) { return NumberAt(row.axes, axis); });
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::vector<Chart> StateCharts(const SweepReport& report, const TaskView& view,
                               const Styles& styles) {
  Chart chart;
  chart.has_lines = false;
  chart.y = kAccuracyAxis;
  std::set<double> sizes;
  std::int64_t at_num_tokens = 0;
  Object longest;
  for (const GroupSummary* group : view.groups) {
    const AccuracyOverSeeds* last = nullptr;
    for (const AccuracyOverSeeds& row : group->accuracy) {
      if (row.slice.empty()) last = &row;  // segments are in ascending order
    }
    if (last == nullptr) continue;
    for (const CellResult& cell : CellsOf(report, *group)) {
      if (cell.model.state_at_num_tokens == 0) continue;
      const std::string label = GroupLabel(view, *group);
      ChartPoint point;
      point.x = static_cast<double>(cell.model.state_bytes_measured);
      point.y = last->mean;
      point.failed = AnyImputed(*last);
      point.note = AccuracyNote(label, *last);
      SetSpread(*last, point);
      chart.series.push_back(
          {.label = label, .style = styles.at(label), .is_faint = false, .points = {point}});
      sizes.insert(point.x);
      at_num_tokens = cell.model.state_at_num_tokens;
      longest = last->axes;
      break;
    }
  }
  if (sizes.empty()) return {};
  chart.title = "Accuracy over state size, at " + AxesText(longest);
  chart.x.label = fmt::format("state after {} tokens, bytes per sequence", at_num_tokens);
  chart.x.scale = ChartAxis::Scale::kLog2;
  chart.x.format = ChartAxis::Format::kBytes;
  AddGuesses(view, chart, [&](const auto& row) {
    return row.axes == longest ? std::optional(*sizes.begin()) : std::nullopt;
  });
  chart.has_reference_labels_right = true;  // small states, with low accuracy, are on the left
  return {std::move(chart)};
}

std::vector<Chart> SliceCharts(const TaskView& view, const Styles& styles) {
  std::vector<std::pair<std::string, Chart>> charts;  // by segment and slice
  for (const GroupSummary* group : view.groups) {
    const std::string label = GroupLabel(view, *group);
    for (const AccuracyOverSeeds& row : group->accuracy) {
      if (row.slice.empty()) continue;
      const std::string title = AxesText(row.axes);
      const std::string key = title + "\n" + row.slice;
      auto found = std::find_if(charts.begin(), charts.end(),
                                [&](const auto& item) { return item.first == key; });
      if (found == charts.end()) {
        Chart chart;
        chart.title = title;
        chart.x.label = row.slice;
        chart.x.scale = ChartAxis::Scale::kCategory;
        chart.y = kAccuracyAxis;
        chart.y.label = "accuracy, %";
        chart.has_direct_labels = false;
        chart.width = 280;
        chart.height = 220;
        found = charts.insert(charts.end(), {key, std::move(chart)});
      }
      Chart& chart = found->second;
      auto& categories = chart.x.categories;
      auto category = std::find(categories.begin(), categories.end(), row.bucket);
      if (category == categories.end()) category = categories.insert(category, row.bucket);
      if (chart.series.empty() || chart.series.back().label != label) {
        chart.series.push_back(
            {.label = label, .style = styles.at(label), .is_faint = false, .points = {}});
      }
      ChartPoint point;
      point.x = static_cast<double>(category - categories.begin());
      point.y = row.mean;
      point.failed = AnyImputed(row);
      point.note = AccuracyNote(label, row);
      chart.series.back().points.push_back(std::move(point));
    }
  }
  std::vector<Chart> list;
  for (auto& [key, chart] : charts) list.push_back(std::move(chart));
  return list;
}

std::vector<Chart> LearningCharts(const SweepReport& report, const TaskView& view,
                                  const Styles& styles) {
  return {LearningChart(report, view, styles, false), LearningChart(report, view, styles, true)};
}

std::vector<Chart> ThroughputCharts(const SweepReport& report, const TaskView& view,
                                    const Styles& styles) {
  std::map<std::string, Chart> charts;  // by phase
  for (const GroupSummary* group : view.groups) {
    const std::string label = GroupLabel(view, *group);
    for (const CellResult& cell : CellsOf(report, *group)) {
      for (const ThroughputRow& row : cell.throughput) {
        const auto [found, is_new] = charts.try_emplace(
            fmt::format("{}, {}, batch {}", row.phase, row.dtype, row.batch_size));
        Chart& chart = found->second;
        if (is_new) {
          chart.title = "Throughput: " + found->first;
          chart.x.label = "seq_len, tokens";
          chart.x.scale = ChartAxis::Scale::kLog2;
          chart.y.label = "tokens per second";
          chart.y.scale = ChartAxis::Scale::kLog10;
          chart.y.format = ChartAxis::Format::kSi;
        }
        if (chart.series.empty() || chart.series.back().label != label) {
          chart.series.push_back(
              {.label = label, .style = styles.at(label), .is_faint = false, .points = {}});
        }
        ChartPoint point;
        point.x = static_cast<double>(row.seq_len);
        point.y = row.tokens_per_second;
        if (row.median_ms && row.spread_ms && row.tokens_per_second && row.spread_ms->low > 0) {
          const double tokens_ms = *row.tokens_per_second * *row.median_ms;
          point.low = tokens_ms / row.spread_ms->high;
          point.high = tokens_ms / row.spread_ms->low;
        }
        point.failed = row.state != CellState::kCompleted;
        point.note = row.median_ms ? fmt::format("{}, {} tokens: {:.4g} ms", label, row.seq_len,
                                                 *row.median_ms)
                                   : fmt::format("{}, {} tokens: {} ({})", label, row.seq_len,
                                                 NameOf(row.state), row.reason);
        chart.series.back().points.push_back(std::move(point));
      }
    }
  }
  std::vector<Chart> list;
  for (auto& [key, chart] : charts) list.push_back(std::move(chart));
  return list;
}

}  // namespace mixerbench::reports
