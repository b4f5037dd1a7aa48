// SPDX-License-Identifier: Apache-2.0
#include "reports/view/trained_tables.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/dotted_path.h"
#include "io/json.h"
#include "reports/statistics/statistics.h"
#include "reports/summary/select.h"
#include "reports/view/cell_parts.h"
#include "reports/view/datums.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

Datum Text(std::string text) {
  Datum datum;
  datum.text = std::move(text);
  return datum;
}

// The groups of trainings that a report leaves out, as others of their setting were chosen.
std::set<std::string> HiddenTrainings(const SweepReport& report) {
  std::set<std::string> hidden;
  for (const GroupSummary& group : report.groups) {
    if (group.kind != "train" || IsReported(group)) continue;
    for (const CellResult& cell : CellsOf(report, group)) hidden.insert(cell.training_id);
  }
  return hidden;
}

std::vector<const GroupSummary*> ShownGroups(const SweepReport& report, const std::string& kind) {
  const std::set<std::string> hidden = HiddenTrainings(report);
  std::vector<const GroupSummary*> groups;
  for (const GroupSummary& group : report.groups) {
    if (group.kind != kind) continue;
    if (!hidden.contains(report.cells[group.first_cell].training_id)) groups.push_back(&group);
  }
  return groups;
}

using EvaluatedSegment = std::pair<const GroupSummary*, const AccuracyOverSeeds*>;

// Whole segments by name of the cell, then by their sizes: groups are in the order of hashes.
std::vector<EvaluatedSegment> EvaluatedSegments(const SweepReport& report) {
  std::vector<EvaluatedSegment> segments;
  for (const GroupSummary* group : ShownGroups(report, "evaluate")) {
    for (const AccuracyOverSeeds& row : group->accuracy) {
      if (row.slice.empty()) segments.emplace_back(group, &row);
    }
  }
  const auto is_before = [](const Object& a, const Object& b) {
    for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end(); ++x, ++y) {
      const std::string left = io::DumpJson(x->second);
      const std::string right = io::DumpJson(y->second);
      if (left != right) return ValueLess(left, right);
    }
    return a.size() < b.size();
  };
  std::stable_sort(segments.begin(), segments.end(), [&](const auto& a, const auto& b) {
    if (a.first->name != b.first->name) return a.first->name < b.first->name;
    return is_before(a.second->axes, b.second->axes);
  });
  return segments;
}

// Mixer, task and setting: what both tables begin with.
const std::vector<Column> kNames = {{.label = "Mixer", .kind = Column::Kind::kText},
                                    {.label = "Task", .kind = Column::Kind::kText},
                                    {.label = "Setting", .kind = Column::Kind::kText},
                                    {.label = "Tested on", .kind = Column::Kind::kText}};

// Sorted by its length, where it has one.
Datum SegmentDatum(const Object& axes) {
  Datum datum = Text(SegmentText(axes));
  const auto length = axes.find("input_seq_len");
  if (length != axes.end() && length->second.is_number()) {
    datum.value = length->second.as_double();
  }
  return datum;
}

Row RowOf(const SweepReport& report, const MixerList& mixers, const GroupSummary& group,
          const Object& axes) {
  const int mixer = mixers.IndexOf(MixerKey(group.name));
  return {mixer,
          {Text(LabelOf(mixers, mixer)), Text(SplitCellName(group.name).task),
           Text(PartsText(group, VaryingKeys(report))), SegmentDatum(axes)}};
}

Datum AccuracyOf(const AccuracyOverSeeds& row) {
  Datum datum = NumberDatum(row.mean, Percent(row.mean));
  datum.state = row.state;
  datum.note = row.reason;
  if (!row.mean) datum.text = std::string(NameOf(row.state));
  const bool has_imputed = std::any_of(row.imputed.begin(), row.imputed.end(), std::identity());
  if (has_imputed) datum.text += " †";
  if (const auto& ci = row.ci_seeds ? row.ci_seeds : row.ci_items) {
    datum.low = ci->low;
    datum.high = ci->high;
    datum.sub = PercentRange(ci->low, ci->high);
  }
  return datum;
}

// What one tap recorded in one place on one segment, over the seeds of a group.
struct TapSummary {
  const TapRow* example = nullptr;
  std::vector<double> means, deviations;
  std::optional<double> min, max;
  std::int64_t num_not_finite = 0;

  void Add(const TapRow& row) {
    if (example == nullptr) example = &row;
    num_not_finite += row.num_not_finite;
    if (!row.mean) return;
    means.push_back(*row.mean);
    deviations.push_back(row.std.value_or(0));
    min = std::min(min.value_or(*row.min), *row.min);
    max = std::max(max.value_or(*row.max), *row.max);
  }
};

std::vector<TapSummary> SummariseTaps(const SweepReport& report, const GroupSummary& group) {
  std::map<std::pair<std::string, std::string>, std::size_t> places;  // by segment and path
  std::vector<TapSummary> summaries;
  for (const CellResult& cell : CellsOf(report, group)) {
    for (const TapRow& row : cell.taps) {
      const bool is_failure = row.path.empty() && row.state != CellState::kSkipped;
      if (is_failure) continue;  // in the table of what did not complete
      const std::string place = row.path.empty() ? row.tap : row.path;
      const auto [found, is_new] =
          places.try_emplace({io::DumpJson(Value(row.axes)), place}, summaries.size());
      if (is_new) summaries.emplace_back();
      summaries[found->second].Add(row);
    }
  }
  return summaries;
}

Datum SignificantDatum(std::optional<double> value) {
  return NumberDatum(value, Significant(value, 4));
}

std::optional<double> MeanOf(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(Mean(values));
}

}  // namespace

std::optional<Table> EvaluationTable(const SweepReport& report, const MixerList& mixers) {
  Table table{
      .key = "evaluations",
      .title = "Evaluated with the weights of the trainings.",
      .note =
          "Accuracy in percent, mean over seeds, with its 95 % interval; † some seed failed "
          "and counts as chance."};
  table.columns = kNames;
  table.columns.push_back({.label = "Seeds"});
  table.columns.push_back({.label = "Accuracy, %", .is_down_first = true});
  table.columns.push_back({.label = "Chance, %"});
  for (const auto& [group, accuracy] : EvaluatedSegments(report)) {
    Row row = RowOf(report, mixers, *group, accuracy->axes);
    const auto num_seeds = static_cast<double>(group->seeds.size());
    row.cells.push_back(NumberDatum(num_seeds, Count(num_seeds)));
    row.cells.push_back(AccuracyOf(*accuracy));
    row.cells.push_back(NumberDatum(accuracy->chance, GuessPercent(accuracy->chance)));
    table.Add(std::move(row));
  }
  if (table.rows.empty()) return std::nullopt;
  return table;
}

std::optional<Table> TapTable(const SweepReport& report, const MixerList& mixers) {
  Table table{.key = "taps",
              .title = "What the trained mixers do: taps.",
              .note =
                  "Over all values of a tap on the segment: mean and standard deviation, averaged "
                  "over seeds, and the extremes of all seeds."};
  table.columns = kNames;
  table.columns.push_back({.label = "Tap", .kind = Column::Kind::kText});
  table.columns.push_back({.label = "Place", .kind = Column::Kind::kText, .wraps = true});
  for (const char* label : {"Mean", "Deviation", "Least", "Greatest", "Not finite"}) {
    table.columns.push_back({.label = label});
  }
  for (const GroupSummary* group : ShownGroups(report, "analyse")) {
    for (const TapSummary& tap : SummariseTaps(report, *group)) {
      Row row = RowOf(report, mixers, *group, tap.example->axes);
      row.cells.push_back(Text(tap.example->tap));
      const std::string& path = tap.example->path;
      row.cells.push_back(Text(path.empty() ? tap.example->reason : AllButLastPart(path)));
      for (const auto& value : {MeanOf(tap.means), MeanOf(tap.deviations), tap.min, tap.max}) {
        row.cells.push_back(SignificantDatum(value));
      }
      const auto num_not_finite =
          path.empty() ? std::nullopt : std::optional(static_cast<double>(tap.num_not_finite));
      row.cells.push_back(NumberDatum(num_not_finite, Count(num_not_finite.value_or(0))));
      table.Add(std::move(row));
    }
  }
  if (table.rows.empty()) return std::nullopt;
  table.is_long = table.rows.size() > 40;
  table.summary = Plural(static_cast<std::int64_t>(table.num_rows()), "tap");
  return table;
}

}  // namespace mixerbench::reports
