// Tables about time, cells, failures and plans.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>

#include "io/json.h"
#include "io/text.h"
#include "reports/view/cell_parts.h"
#include "reports/view/datums.h"
#include "reports/view/mixer_list.h"
#include "reports/view/numbers.h"
#include "reports/view/plan_table.h"
#include "reports/view/tables.h"
#include "reports/view/time_table.h"
#include "reports/view/timing_settings.h"

namespace mixerbench::reports {
namespace {

// "All 80 cells", of a table without room for them "12,000 cells".
std::string Total(const Table& table, const std::string& noun) {
  return (table.num_left_out == 0 ? "All " : "") +
         Plural(static_cast<std::int64_t>(table.num_rows()), noun);
}

// What one timing was of, besides the mixer.
struct Shape {
  std::string setting;
  std::string dtype;
  std::int64_t seq_len = 0;
  std::int64_t batch_size = 0;
  auto operator<=>(const Shape&) const = default;
};

Datum TimeDatum(const ThroughputRow& row) {
  Datum datum;
  datum.state = row.state;
  if (!row.median_ms) {
    datum.text = std::string(NameOf(row.state));
    datum.note = row.reason;
    return datum;
  }
  datum.value = row.median_ms;
  datum.text = Significant(row.median_ms);
  datum.sub = Si(row.tokens_per_second) + " tok/s";
  datum.note = fmt::format("median of {} samples", row.samples_ms.size());
  if (row.spread_ms) {
    datum.note += fmt::format("\n20 to 80 %: {} to {} ms", Significant(row.spread_ms->low, 4),
                              Significant(row.spread_ms->high, 4));
  }
  if (row.peak_memory_bytes) {
    datum.note += "\npeak memory " + Bytes(static_cast<double>(*row.peak_memory_bytes));
  }
  datum.note += "\nparity: " + ParityText(row);
  if (const std::string lower = ThrottleText(row); !lower.empty()) {
    datum.note += "\nclocks lowered by " + lower;
  }
  if (!row.execution.empty()) datum.note += "\n" + row.execution + ", " + row.clock;
  return datum;
}

// Sorted by its low end.
Datum SpreadDatum(const ThroughputRow& row) {
  if (!row.spread_ms) return {};
  return NumberDatum(row.spread_ms->low,
                     Significant(row.spread_ms->low) + "–" + Significant(row.spread_ms->high));
}

bool AnyThrottled(const SweepReport& report) {
  for (const CellResult& cell : report.cells) {
    for (const ThroughputRow& row : cell.throughput) {
      if (!ThrottleText(row).empty()) return true;
    }
  }
  return false;
}

// Where a cell stopped. Of one without result nobody knows: it may be running.
Datum StepDatum(const CellResult& cell) {
  const auto step = static_cast<double>(cell.step);
  if (IsMissing(cell) && cell.step == 0) return {};
  return NumberDatum(step, Count(step));
}

// What a cell is beside the training of the same name; empty for a training.
std::string UseText(const std::string& kind) {
  if (kind == "train") return "";
  return kind == "throughput" ? "speed" : kind;
}

// What a failure of a cell of this kind does to the numbers.
const char* CountsAs(const std::string& kind) {
  if (kind == "train") return "chance, unsolved";
  if (kind == "evaluate") return "chance";
  return kind == "throughput" ? "no time" : "nothing";
}

std::map<std::string, std::map<Shape, std::map<int, const ThroughputRow*>>> ByPhase(
    const SweepReport& report, const MixerList& mixers) {
  const TimingSettings settings(report);
  std::map<std::string, std::map<Shape, std::map<int, const ThroughputRow*>>> phases;
  for (const GroupSummary& group : report.groups) {
    const int mixer = mixers.IndexOf(MixerKey(group.name));
    for (const CellResult& cell : CellsOf(report, group)) {
      const std::string setting = settings.TextOf(group, cell);
      for (const ThroughputRow& row : cell.throughput) {
        const Shape shape{setting, row.dtype, row.seq_len, row.batch_size};
        phases[row.phase][shape].try_emplace(mixer, &row);
      }
    }
  }
  return phases;
}

Table SpeedTable(const MixerList& mixers, const std::string& phase,
                 const std::map<Shape, std::map<int, const ThroughputRow*>>& shapes) {
  Table table{.key = "",
              .title = PhaseName(phase) + ".",
              .note =
                  "Median, ms; small: tokens per second. Bars: share of the slowest in the "
                  "column."};
  table.columns.push_back({.label = "Mixer", .kind = Column::Kind::kText});
  std::map<int, double> total;
  for (const auto& [shape, rows] : shapes) {
    for (const auto& [mixer, row] : rows) total[mixer] += row->median_ms.value_or(1e9);
  }
  std::vector<int> order;
  for (const auto& [mixer, time] : total) order.push_back(mixer);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return total[a] < total[b]; });
  for (const int mixer : order) {
    table.rows.push_back({mixer, {TextDatum(LabelOf(mixers, mixer))}});
  }
  for (const auto& [shape, rows] : shapes) {
    Column column{.label = (phase == "decode" ? "after " : "") +
                           Count(static_cast<double>(shape.seq_len)) + " tokens"};
    column.unit = fmt::format("batch {}, {}", shape.batch_size, shape.dtype);
    column.group = "ms" + (shape.setting.empty() ? "" : ": " + shape.setting);
    table.columns.push_back(std::move(column));
    double slowest = 0;
    for (const auto& [mixer, row] : rows) slowest = std::max(slowest, row->median_ms.value_or(0));
    for (Row& row : table.rows) {
      const auto found = rows.find(row.mixer);
      row.cells.push_back(found == rows.end() ? Datum() : TimeDatum(*found->second));
      if (row.cells.back().value && slowest > 0)
        row.cells.back().share = *row.cells.back().value / slowest;
    }
  }
  return table;
}

}  // namespace

std::string PhaseName(const std::string& phase) {
  if (phase == "train_step") return "One training step";
  if (phase == "fwd") return "Forward pass";
  if (phase == "fwd_bwd") return "Forward and backward pass";
  if (phase == "prefill") return "Forward pass with the state that it leaves";
  if (phase == "decode") return "One more token of every sequence";
  return phase;
}

std::vector<Table> SpeedTables(const SweepReport& report, const MixerList& mixers) {
  const auto phases = ByPhase(report, mixers);
  std::vector<Table> tables;
  for (const auto& [phase, shapes] : phases) {
    if (phases.contains("train_step") && phase != "train_step") continue;
    std::map<Shape, std::map<int, const ThroughputRow*>> part;
    for (const auto& item : shapes) {
      part.insert(item);
      if (part.size() < kMaxColumns) continue;
      tables.push_back(SpeedTable(mixers, phase, part));
      part.clear();
    }
    if (!part.empty()) tables.push_back(SpeedTable(mixers, phase, part));
  }
  return tables;
}

std::optional<Table> FailureTable(const SweepReport& report, const MixerList& mixers) {
  Table table{.key = "failures", .title = "What did not complete.", .note = ""};
  table.columns = {{.label = "Cell", .kind = Column::Kind::kText},
                   {.label = "Seed"},
                   {.label = "State", .kind = Column::Kind::kText},
                   {.label = "Step"},
                   {.label = "Reason", .kind = Column::Kind::kText, .wraps = true},
                   {.label = "Counts as", .kind = Column::Kind::kText}};
  const std::set<std::string> varying = VaryingKeys(report);
  const auto add = [&](const CellResult& cell, const std::string& name, CellState state,
                       const std::string& reason, const char* counts) {
    Datum word = TextDatum(std::string(NameOf(state)));
    word.state = state;
    table.Add(
        {kNoMixer,
         {TextDatum(name), NumberDatum(static_cast<double>(cell.seed), std::to_string(cell.seed)),
          word, cell.kind == "train" ? StepDatum(cell) : Datum{}, TextDatum(reason),
          TextDatum(counts)}});
  };
  for (const GroupSummary& group : report.groups) {
    const std::string setting = PartsText(group, varying);
    const std::string name = LabelOf(mixers, mixers.IndexOf(MixerKey(group.name))) +
                             (setting.empty() ? "" : ", " + setting);
    for (const CellResult& cell : CellsOf(report, group)) {
      if (cell.state != CellState::kCompleted) {
        const std::string use = UseText(cell.kind);
        add(cell, use.empty() ? name : name + ", " + use, cell.state, cell.reason,
            IsFailure(cell.state) ? CountsAs(cell.kind) : "nothing");
        continue;
      }
      for (const AccuracyRow& row : cell.accuracy) {
        if (row.state == CellState::kCompleted || !row.slice.empty()) continue;
        add(cell, name + ", " + SegmentText(row.axes), row.state, row.reason,
            IsFailure(row.state) ? "chance" : "nothing");
      }
      for (const TapRow& row : cell.taps) {
        if (!IsFailure(row.state) && row.state != CellState::kUnsupported) continue;
        add(cell, name + ", tap " + row.tap + ", " + SegmentText(row.axes), row.state, row.reason,
            "nothing");
      }
      for (const ThroughputRow& row : cell.throughput) {
        if (row.state == CellState::kCompleted) continue;
        add(cell, fmt::format("{}, {} at {} tokens", name, row.phase, row.seq_len), row.state,
            row.reason, "no time");
      }
    }
  }
  if (table.rows.empty()) return std::nullopt;
  if (table.rows.size() > 40) {
    table.is_long = true;
    table.summary = Count(static_cast<double>(table.num_rows())) + " results did not complete";
  }
  return table;
}

Table CellTable(const SweepReport& report, const MixerList& mixers) {
  Table table{.key = "cells", .title = "", .note = ""};
  table.columns = {{.label = "Cell", .kind = Column::Kind::kText},
                   {.label = "Task", .kind = Column::Kind::kText},
                   {.label = "Kind", .kind = Column::Kind::kText},
                   {.label = "Seed"},
                   {.label = "State", .kind = Column::Kind::kText},
                   {.label = "Accuracy, %", .is_down_first = true},
                   {.label = "Steps"},
                   {.label = "Tokens"},
                   {.label = "Wall, s"},
                   {.label = "Run", .kind = Column::Kind::kText}};
  const std::set<std::string> varying = VaryingKeys(report);
  for (const GroupSummary& group : report.groups) {
    const CellName parts = SplitCellName(group.name);
    const std::string setting = PartsText(group, varying);
    const std::string name = LabelOf(mixers, mixers.IndexOf(MixerKey(group.name))) +
                             (setting.empty() ? "" : ", " + setting);
    for (const CellResult& cell : CellsOf(report, group)) {
      std::optional<double> accuracy;
      for (const AccuracyRow& row : cell.accuracy) {
        if (row.slice.empty() && row.accuracy) accuracy = row.accuracy;  // the last, the longest
      }
      const bool is_training = cell.kind == "train";
      const bool is_timed = !IsMissing(cell) || cell.wall_s > 0;
      const auto wall = is_timed ? std::optional(cell.wall_s) : std::nullopt;
      Datum state = TextDatum(std::string(NameOf(cell.state)));
      state.state = cell.state;
      Datum run = TextDatum(io::ShortHash(cell.run_id));
      run.is_code = true;
      const auto tokens = cell.tokens_seen > 0
                              ? std::optional(static_cast<double>(cell.tokens_seen))
                              : std::nullopt;
      table.Add({kNoMixer,
                 {TextDatum(name), TextDatum(parts.task), TextDatum(cell.kind),
                  NumberDatum(static_cast<double>(cell.seed), std::to_string(cell.seed)), state,
                  NumberDatum(accuracy, Percent(accuracy)), is_training ? StepDatum(cell) : Datum{},
                  NumberDatum(tokens, Si(tokens)),
                  NumberDatum(wall, fmt::format("{:.1f}", cell.wall_s)), run}});
    }
  }
  table.is_long = true;
  table.summary = Total(table, "cell");
  return table;
}

std::optional<Table> TimingTable(const SweepReport& report, const MixerList& mixers) {
  Table table{.key = "timings", .title = "", .note = ""};
  table.columns = {{.label = "Mixer", .kind = Column::Kind::kText},
                   {.label = "Setting", .kind = Column::Kind::kText},
                   {.label = "Phase", .kind = Column::Kind::kText},
                   {.label = "Type", .kind = Column::Kind::kText},
                   {.label = "Batch"},
                   {.label = "Tokens"},
                   {.label = "Median, ms"},
                   {.label = "20 to 80 %, ms", .kind = Column::Kind::kText},
                   {.label = "Tokens/s", .is_down_first = true},
                   {.label = "Peak memory"},
                   {.label = "Parity", .kind = Column::Kind::kText}};
  const bool is_throttled = AnyThrottled(report);
  if (is_throttled) table.columns.push_back({.label = "Lower clocks", .kind = Column::Kind::kText});
  const TimingSettings settings(report);
  for (const GroupSummary& group : report.groups) {
    const std::string label = LabelOf(mixers, mixers.IndexOf(MixerKey(group.name)));
    for (const CellResult& cell : CellsOf(report, group)) {
      const std::string setting = settings.TextOf(group, cell);
      for (const ThroughputRow& row : cell.throughput) {
        Datum time = NumberDatum(row.median_ms, Significant(row.median_ms));
        if (!row.median_ms) time.text = std::string(NameOf(row.state));
        time.state = row.state;
        time.note = row.reason;
        const auto memory = row.peak_memory_bytes
                                ? std::optional(static_cast<double>(*row.peak_memory_bytes))
                                : std::nullopt;
        Row shown{
            kNoMixer,
            {TextDatum(label), TextDatum(setting), TextDatum(row.phase), TextDatum(row.dtype),
             NumberDatum(static_cast<double>(row.batch_size), std::to_string(row.batch_size)),
             NumberDatum(static_cast<double>(row.seq_len), Count(static_cast<double>(row.seq_len))),
             time, SpreadDatum(row), NumberDatum(row.tokens_per_second, Si(row.tokens_per_second)),
             NumberDatum(memory, Bytes(memory)), TextDatum(ParityText(row))}};
        if (is_throttled) shown.cells.push_back(TextDatum(ThrottleText(row)));
        table.Add(std::move(shown));
      }
    }
  }
  if (table.rows.empty()) return std::nullopt;
  table.is_long = true;
  table.summary = Total(table, "timing");
  return table;
}

std::optional<Table> PlanTable(const SweepReport& report) {
  Table table{.key = "plans", .title = "What ran.", .note = kPlanCaption};
  for (const std::string& name : PlanColumns()) {
    table.columns.push_back({.label = name, .kind = Column::Kind::kText});
  }
  table.columns.back().wraps = true;
  for (const PlanTableRow& plan : PlansByMixer(report)) {
    Row row;
    for (const std::string& field : PlanFields(plan)) row.cells.push_back(TextDatum(field));
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) return std::nullopt;
  table.is_long = table.rows.size() > 12;
  table.summary = "What ran, " + Plural(static_cast<std::int64_t>(table.rows.size()), "row");
  return table;
}

std::optional<Table> TimeTable(const SweepReport& report, const MixerList& mixers) {
  Table table{.key = "time", .title = "Where the time went.", .note = kTimeCaption};
  table.columns = {{.label = "Mixer", .kind = Column::Kind::kText},
                   {.label = "Task", .kind = Column::Kind::kText},
                   {.label = "Cells"},
                   {.label = "Steps"}};
  using Phase = std::pair<const char*, double PhaseTimes::*>;
  const std::vector<Phase> phases = {
      {"train", &PhaseTimes::train_s},     {"validation", &PhaseTimes::validation_s},
      {"test", &PhaseTimes::test_s},       {"set-up", &PhaseTimes::setup_s},
      {"capture", &PhaseTimes::capture_s}, {"checkpoint", &PhaseTimes::checkpoint_s}};
  for (const auto& [name, phase] : phases) {
    table.columns.push_back({.label = name, .group = "Seconds"});
  }
  table.columns.push_back({.label = "ms per step"});
  const std::vector<TimeRow> times = TimesByMixer(report);
  // Few know it: a column of nothing but dashes says less than none.
  const bool has_energy =
      std::any_of(times.begin(), times.end(), [](const TimeRow& time) { return time.energy_j; });
  if (has_energy) {
    table.columns.push_back({.label = "kWh"});
    table.note += kEnergyCaption;
    if (const auto joules = TotalEnergy(report)) {
      table.note += fmt::format(" All cells, timings too: {} kWh.", Significant(*joules / 3.6e6));
    }
  }
  for (const TimeRow& time : times) {
    const auto count = [](std::int64_t n) {
      return NumberDatum(static_cast<double>(n), Count(static_cast<double>(n)));
    };
    const int mixer = mixers.IndexOf(time.mixer.empty() ? time.task : time.mixer);
    Row row{.mixer = mixer,
            .cells = {TextDatum(LabelOf(mixers, mixer)), TextDatum(time.task),
                      count(time.num_cells), count(time.num_steps)}};
    for (const auto& [name, phase] : phases) {
      const double seconds = time.phases.*phase;
      row.cells.push_back(NumberDatum(seconds, fmt::format("{:.1f}", seconds)));
    }
    const auto per_step =
        time.num_steps > 0
            ? std::optional(1e3 * time.phases.train_s / static_cast<double>(time.num_steps))
            : std::nullopt;
    row.cells.push_back(NumberDatum(per_step, Significant(per_step)));
    if (has_energy) {
      const auto kwh = time.energy_j ? std::optional(*time.energy_j / 3.6e6) : std::nullopt;
      row.cells.push_back(NumberDatum(kwh, Significant(kwh)));
    }
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) return std::nullopt;
  return table;
}

}  // namespace mixerbench::reports
