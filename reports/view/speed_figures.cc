// Throughput and memory over length.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>

#include "reports/view/figure_parts.h"
#include "reports/view/figures.h"
#include "reports/view/mixer_list.h"
#include "reports/view/numbers.h"
#include "reports/view/tables.h"
#include "reports/view/timing_settings.h"

namespace mixerbench::reports {
namespace {

// What one panel shows: everything but mixer and length.
struct Shown {
  std::string phase;
  std::string setting;
  std::string dtype;
  std::int64_t batch_size = 0;
  auto operator<=>(const Shown&) const = default;
};

using Timings = std::map<int, std::map<std::int64_t, const ThroughputRow*>>;  // by mixer and length

std::map<Shown, Timings> Collect(const SweepReport& report, const MixerList& mixers) {
  const TimingSettings settings(report);
  std::map<Shown, Timings> panels;
  for (const GroupSummary& group : report.groups) {
    const CellName name = SplitCellName(group.name);
    const int mixer = mixers.IndexOf(name.mixer.empty() ? group.name : name.mixer);
    for (const CellResult& cell : CellsOf(report, group)) {
      const std::string setting = settings.TextOf(group, cell);
      for (const ThroughputRow& row : cell.throughput) {
        panels[{row.phase, setting, row.dtype, row.batch_size}][mixer].try_emplace(row.seq_len,
                                                                                   &row);
      }
    }
  }
  return panels;
}

std::string TitleOf(const Shown& shown) {
  return PhaseName(shown.phase) + ", " + shown.dtype + ", batch " +
         std::to_string(shown.batch_size) + (shown.setting.empty() ? "" : ", " + shown.setting);
}

// One line per mixer over length; `value_of` gives the height of a point, or nothing.
template <typename ValueOf>
std::optional<Panel> LengthPanel(const Shown& shown, const Timings& timings,
                                 const MixerList& mixers, const std::string& unit, bool is_bytes,
                                 ValueOf value_of) {
  std::set<std::int64_t> lengths;
  double low = 1e300;
  double high = 0;
  for (const auto& [mixer, rows] : timings) {
    for (const auto& [length, row] : rows) {
      lengths.insert(length);
      if (const auto value = value_of(*row); value && *value > 0) {
        low = std::min(low, *value);
        high = std::max(high, *value);
      }
    }
  }
  if (lengths.size() < 2 || high <= 0) return std::nullopt;
  const std::string title = TitleOf(shown);
  std::vector<std::string> names;
  std::map<std::int64_t, double> at;
  for (const std::int64_t length : lengths) {
    at[length] = static_cast<double>(names.size());
    names.push_back(Count(static_cast<double>(length)));
  }
  Panel panel{
      .title = title,
      .describe = title + ", " + Plural(static_cast<int>(timings.size()), "mixer") +
                  " over sequence length",
      .x = NameAxis(names, shown.phase == "decode" ? "tokens before it" : "tokens per sequence"),
      .y = {.label = unit, .scale = Axis::Scale::kLog, .low = low / 1.4, .high = high * 1.3}};
  panel.y.ticks =
      is_bytes ? ByteTicks(panel.y.low, panel.y.high) : LogTicks(panel.y.low, panel.y.high);
  for (const auto& [mixer, rows] : timings) {
    Series series{.mixer = mixer, .has_name = true};
    for (const auto& [length, row] : rows) {
      const auto value = value_of(*row);
      Mark mark{.x = at[length], .y = value.value_or(panel.y.low)};
      mark.note = LabelOf(mixers, mixer) + ", " + Count(static_cast<double>(length)) + " tokens\n" +
                  (value ? (is_bytes ? Bytes(value) : Si(value) + " " + unit)
                         : std::string(NameOf(row->state)) + ": " + row->reason);
      if (row->median_ms) mark.note += "\n" + Significant(row->median_ms) + " ms";
      if (!value) {
        if (!IsFailure(row->state)) continue;
        mark.failed = std::string(NameOf(row->state));
      }
      series.marks.push_back(std::move(mark));
    }
    panel.series.push_back(std::move(series));
  }
  panel.names = Panel::Names::kEnds;
  panel.height = 268;
  return panel;
}

}  // namespace

std::vector<Block> SpeedFigures(const SweepReport& report, const MixerList& mixers) {
  std::vector<Panel> speed;
  std::vector<Panel> memory;
  for (const auto& [shown, timings] : Collect(report, mixers)) {
    auto fast = LengthPanel(shown, timings, mixers, "tokens per second", false,
                            [](const ThroughputRow& row) { return row.tokens_per_second; });
    if (fast) speed.push_back(std::move(*fast));
    auto peak =
        LengthPanel(shown, timings, mixers, "peak memory", true, [](const ThroughputRow& row) {
          return row.peak_memory_bytes ? std::optional(static_cast<double>(*row.peak_memory_bytes))
                                       : std::nullopt;
        });
    if (peak && shown.phase != "fwd" && shown.phase != "prefill")
      memory.push_back(std::move(*peak));
  }
  std::vector<Block> blocks;
  const auto add = [&](const std::string& title, const std::string& caption,
                       const std::vector<Panel>& panels) {
    if (panels.empty()) return;
    Figure figure{.title = title,
                  .caption = {caption, "Log axes. A red cross on the axis: did not run."},
                  .panels = {}};
    DrawPanels(panels, mixers, figure);
    blocks.emplace_back(std::move(figure));
  };
  add("Throughput over length", "Medians over repeats after warm-up.", speed);
  add("Memory over length", "The peak that the allocator reports.", memory);
  return blocks;
}

}  // namespace mixerbench::reports
