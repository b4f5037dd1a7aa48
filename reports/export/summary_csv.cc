// What cells and groups are as a whole. Their rows begin alike, so that they can be joined.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/text.h"
#include "reports/export/csv_fields.h"
#include "reports/export/export.h"
#include "reports/result/device.h"
#include "reports/result/result_json.h"
#include "reports/view/cell_parts.h"
#include "reports/view/config_leaves.h"

namespace mixerbench::reports {
namespace {

// A column: its name, and its field of what a row is about.
template <typename Row>
struct CsvColumn {
  std::string name;
  std::string (*field)(const Row&);
};

template <typename Row>
std::vector<std::string> NamesOf(const std::vector<CsvColumn<Row>>& columns) {
  std::vector<std::string> names;
  for (const CsvColumn<Row>& column : columns) names.push_back(column.name);
  return names;
}

template <typename Row>
void Append(const std::vector<CsvColumn<Row>>& columns, const Row& row,
            std::vector<std::string>& fields) {
  for (const CsvColumn<Row>& column : columns) fields.push_back(column.field(row));
}

const std::vector<CsvColumn<GroupSummary>>& HeadColumns() {
  using G = GroupSummary;
  static const std::vector<CsvColumn<G>> columns = {
      {"task", [](const G& g) { return io::CsvField(SplitCellName(g.name).task); }},
      {"mixer", [](const G& g) { return io::CsvField(SplitCellName(g.name).mixer); }},
      {"variant", [](const G& g) { return io::CsvField(SplitCellName(g.name).variant); }},
      {"kind", [](const G& g) { return io::CsvField(g.kind); }},
      {"group_id", [](const G& g) { return io::CsvField(g.group_id); }},
      {"phase",
       [](const G& g) { return g.phase == CellPhase::kNone ? "" : std::string(NameOf(g.phase)); }},
      {"selected",
       [](const G& g) { return g.selection ? Truth(g.selection->selected) : std::string(); }}};
  return columns;
}

// Of names, so that no axis has the name of another column: "setting.lr".
std::set<std::string> SettingKeys(const SweepReport& report) {
  std::set<std::string> keys;
  for (const GroupSummary& group : report.groups) {
    for (const auto& [key, value] : PartsOf(group)) {
      if (!key.empty()) keys.insert(key);
    }
  }
  return keys;
}

// Numbers of a name are written bare, as numbers of a result are.
std::string SettingField(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.e-") == text.npos ? text
                                                                               : io::CsvField(text);
}

// The head of a table, or the fields of a group under it.
std::vector<std::string> HeadNames(const std::set<std::string>& keys) {
  std::vector<std::string> names = NamesOf(HeadColumns());
  for (const std::string& key : keys) names.push_back(io::CsvField("setting." + key));
  return names;
}

std::vector<std::string> HeadFields(const GroupSummary& group, const std::set<std::string>& keys) {
  std::vector<std::string> fields;
  Append(HeadColumns(), group, fields);
  const std::map<std::string, std::string> parts = PartsOf(group);
  for (const std::string& key : keys) {
    const auto found = parts.find(key);
    fields.push_back(found == parts.end() ? "" : SettingField(found->second));
  }
  return fields;
}

std::optional<double> BestValidation(const CellResult& cell) {
  std::optional<double> best;
  for (const LearningPoint& point : cell.learning_curve) {
    best = std::max(best, point.validation_accuracy);
  }
  return best;
}

// The most that one of its timings needed.
std::optional<std::int64_t> PeakMemory(const CellResult& cell) {
  std::optional<std::int64_t> peak;
  for (const ThroughputRow& row : cell.throughput) peak = std::max(peak, row.peak_memory_bytes);
  return peak;
}

std::optional<std::int64_t> StateBytes(const CellResult& cell, std::int64_t bytes) {
  return cell.model.state_at_num_tokens > 0 ? std::optional(bytes) : std::nullopt;
}

std::optional<double> PhaseTime(const CellResult& cell, double PhaseTimes::*phase) {
  return cell.phases ? std::optional((*cell.phases).*phase) : std::nullopt;
}

const std::vector<CsvColumn<CellResult>>& CellColumns() {
  using C = CellResult;
  static const std::vector<CsvColumn<C>> columns = {
      {"seed", [](const C& c) { return std::to_string(c.seed); }},
      {"run_id", [](const C& c) { return io::CsvField(c.run_id); }},
      {"experiment_id", [](const C& c) { return io::CsvField(c.experiment_id); }},
      {"code_id", [](const C& c) { return io::CsvField(c.code_id); }},
      {"data_id", [](const C& c) { return io::CsvField(c.data_id); }},
      {"training_id", [](const C& c) { return io::CsvField(c.training_id); }},
      {"partial", [](const C& c) { return Truth(c.partial); }},
      {"state", [](const C& c) { return std::string(NameOf(c.state)); }},
      {"reason", [](const C& c) { return io::CsvField(c.reason); }},
      {"steps", [](const C& c) { return Integer(KnownOf(c, &C::step)); }},
      {"planned_steps", [](const C& c) { return Integer(c.planned_steps); }},
      {"stopped_early", [](const C& c) { return Truth(c.stopped_early); }},
      {"threshold",
       [](const C& c) { return c.threshold > 0 ? Number(c.threshold) : std::string(); }},
      {"steps_to_threshold", [](const C& c) { return Integer(c.steps_to_threshold); }},
      {"solved", [](const C& c) { return Truth(Solved(c)); }},
      {"best_validation_accuracy", [](const C& c) { return Number(BestValidation(c)); }},
      {"parameters",
       [](const C& c) {
         return c.model.num_parameters > 0 ? std::to_string(c.model.num_parameters) : std::string();
       }},
      {"state_bytes_measured",
       [](const C& c) { return Integer(StateBytes(c, c.model.state_bytes_measured)); }},
      {"state_bytes_declared",
       [](const C& c) { return Integer(StateBytes(c, c.model.state_bytes_declared)); }},
      {"state_at_num_tokens",
       [](const C& c) { return Integer(StateBytes(c, c.model.state_at_num_tokens)); }},
      {"path", [](const C& c) { return io::CsvField(c.model.path); }},
      {"peak_memory_bytes", [](const C& c) { return Integer(PeakMemory(c)); }},
      {"tokens_seen", [](const C& c) { return Integer(KnownOf(c, &C::tokens_seen)); }},
      {"started", [](const C& c) { return io::CsvField(c.started); }},
      {"wall_s", [](const C& c) { return Number(KnownOf(c, &C::wall_s)); }},
      {"energy_j", [](const C& c) { return Number(c.energy_j); }},
      {"train_s", [](const C& c) { return Number(PhaseTime(c, &PhaseTimes::train_s)); }},
      {"validation_s", [](const C& c) { return Number(PhaseTime(c, &PhaseTimes::validation_s)); }},
      {"test_s", [](const C& c) { return Number(PhaseTime(c, &PhaseTimes::test_s)); }},
      {"device", [](const C& c) { return io::CsvField(DeviceOf(c)); }},
      {"dtype", [](const C& c) { return io::CsvField(ConfigText(c.config, "train.dtype")); }},
      {"batch_size",
       [](const C& c) { return io::CsvField(ConfigText(c.config, "train.batch_size")); }},
      {"tool_version",
       [](const C& c) { return io::CsvField(ConfigText(c.environment, "tool.version")); }},
      {"git_commit",
       [](const C& c) { return io::CsvField(ConfigText(c.environment, "tool.git_commit")); }}};
  return columns;
}

std::optional<std::int64_t> Censored(const GroupSummary& group) {
  return group.steps_to_threshold ? std::optional(group.steps_to_threshold->num_censored)
                                  : std::nullopt;
}

const std::vector<CsvColumn<GroupSummary>>& GroupColumns() {
  using G = GroupSummary;
  static const std::vector<CsvColumn<G>> columns = {
      {"partial", [](const G& g) { return Truth(g.partial); }},
      {"selection_score",
       [](const G& g) { return g.selection ? Number(g.selection->score) : std::string(); }},
      {"num_seeds", [](const G& g) { return std::to_string(g.seeds.size()); }},
      {"seeds",
       [](const G& g) {
         std::string seeds;
         for (const std::uint64_t seed : g.seeds) {
           seeds += (seeds.empty() ? "" : " ") + std::to_string(seed);
         }
         return seeds;
       }},
      {"states",
       [](const G& g) {
         std::string states;
         for (const auto& [state, count] : g.states) {
           states += (states.empty() ? "" : " ") + state + ":" + std::to_string(count);
         }
         return io::CsvField(states);
       }},
      {"num_solved",
       [](const G& g) {
         return g.solve_rate ? std::to_string(g.solve_rate->num_solved) : std::string();
       }},
      {"solve_rate",
       [](const G& g) {
         return g.solve_rate && g.solve_rate->num_seeds > 0
                    ? Number(static_cast<double>(g.solve_rate->num_solved) /
                             static_cast<double>(g.solve_rate->num_seeds))
                    : std::string();
       }},
      {"solve_rate_wilson_low",
       [](const G& g) { return g.solve_rate ? Number(g.solve_rate->ci.low) : std::string(); }},
      {"solve_rate_wilson_high",
       [](const G& g) { return g.solve_rate ? Number(g.solve_rate->ci.high) : std::string(); }},
      {"steps_to_threshold_median",
       [](const G& g) {
         return g.steps_to_threshold ? Number(g.steps_to_threshold->median) : std::string();
       }},
      {"steps_to_threshold_num_censored", [](const G& g) { return Integer(Censored(g)); }},
      {"effective_length_median", [](const G& g) {
         return g.effective_length ? Integer(g.effective_length->median) : std::string();
       }}};
  return columns;
}

const std::vector<CsvColumn<AccuracyOverSeeds>>& SegmentColumns() {
  using A = AccuracyOverSeeds;
  static const std::vector<CsvColumn<A>> columns = {
      {"slice", [](const A& a) { return io::CsvField(a.slice); }},
      {"bucket", [](const A& a) { return io::CsvField(a.bucket); }},
      {"state", [](const A& a) { return std::string(NameOf(a.state)); }},
      {"reason", [](const A& a) { return io::CsvField(a.reason); }},
      {"num_values",
       [](const A& a) {
         return std::to_string(
             std::count_if(a.per_seed.begin(), a.per_seed.end(),
                           [](const std::optional<double>& value) { return value.has_value(); }));
       }},
      {"num_imputed",
       [](const A& a) {
         return std::to_string(std::count(a.imputed.begin(), a.imputed.end(), true));
       }},
      {"accuracy_mean", [](const A& a) { return Number(a.mean); }},
      {"accuracy_median", [](const A& a) { return Number(a.median); }},
      {"accuracy_min", [](const A& a) { return Number(a.min); }},
      {"accuracy_max", [](const A& a) { return Number(a.max); }},
      {"accuracy_std", [](const A& a) { return Number(a.std); }},
      {"ci_seeds_low",
       [](const A& a) { return a.ci_seeds ? Number(a.ci_seeds->low) : std::string(); }},
      {"ci_seeds_high",
       [](const A& a) { return a.ci_seeds ? Number(a.ci_seeds->high) : std::string(); }},
      {"ci_items_low",
       [](const A& a) { return a.ci_items ? Number(a.ci_items->low) : std::string(); }},
      {"ci_items_high",
       [](const A& a) { return a.ci_items ? Number(a.ci_items->high) : std::string(); }},
      {"chance", [](const A& a) { return Number(a.chance); }},
      {"ceiling", [](const A& a) { return Number(a.ceiling); }},
      {"extrapolated", [](const A& a) { return Truth(a.extrapolated); }}};
  return columns;
}

void Extend(std::vector<std::string>& fields, const std::vector<std::string>& more) {
  fields.insert(fields.end(), more.begin(), more.end());
}

}  // namespace

std::string RenderCellsCsv(const SweepReport& report) {
  const std::set<std::string> keys = SettingKeys(report);
  std::vector<std::string> header = HeadNames(keys);
  Extend(header, NamesOf(CellColumns()));
  std::string out = Line(header);
  for (const GroupSummary& group : report.groups) {
    const std::vector<std::string> head = HeadFields(group, keys);
    for (const CellResult& cell : CellsOf(report, group)) {
      std::vector<std::string> fields = head;
      Append(CellColumns(), cell, fields);
      out += Line(fields);
    }
  }
  return out;
}

std::string RenderGroupsCsv(const SweepReport& report) {
  const std::set<std::string> keys = SettingKeys(report);
  std::set<std::string> axes;
  for (const GroupSummary& group : report.groups) {
    for (const AccuracyOverSeeds& row : group.accuracy) {
      for (const auto& [axis, value] : row.axes) axes.insert(axis);
    }
  }
  std::vector<std::string> header = HeadNames(keys);
  Extend(header, NamesOf(GroupColumns()));
  std::vector<std::string> taken = header;
  Extend(taken, NamesOf(SegmentColumns()));
  Extend(header, AxisColumns(axes, taken));
  Extend(header, NamesOf(SegmentColumns()));

  std::string out = Line(header);
  for (const GroupSummary& group : report.groups) {
    std::vector<std::string> head = HeadFields(group, keys);
    Append(GroupColumns(), group, head);
    if (group.accuracy.empty()) {
      std::vector<std::string> fields = head;
      fields.resize(header.size());
      out += Line(fields);
    }
    for (const AccuracyOverSeeds& row : group.accuracy) {
      std::vector<std::string> fields = head;
      for (const std::string& axis : axes) fields.push_back(Member(row.axes, axis));
      Append(SegmentColumns(), row, fields);
      out += Line(fields);
    }
  }
  return out;
}

}  // namespace mixerbench::reports
