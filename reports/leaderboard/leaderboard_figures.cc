// SPDX-License-Identifier: Apache-2.0
#include "reports/leaderboard/leaderboard_figures.h"

#include <algorithm>
#include <fmt/format.h>

#include "reports/view/figure_parts.h"
#include "reports/view/figures.h"
#include "reports/view/mixer_list.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

void AddScatter(const Leaderboard& board, Panel panel, Better better, Figure& figure) {
  const std::string second = panel.title;
  for (Panel& part : ScatterPanels(std::move(panel), better, board.mixers, second)) {
    figure.panels.push_back(std::move(part));
  }
}

void NameInLegend(const Leaderboard& board, Figure& figure) {
  const bool is_named = board.ranking.size() <= kMaxInOneChart;
  if (is_named || board.ranking.size() > kMaxInSmallCharts) return;
  for (const RankedMixer& ranked : board.ranking) figure.legend.push_back(ranked.mixer);
}

}  // namespace

Figure StateFigure(const Leaderboard& board) {
  Figure figure{.title = "Accuracy at matched state", .caption = {}, .panels = {}};
  bool has_widths = false;
  bool has_intervals = false;
  for (const auto& [family, num] : board.families) {
    const RankedSetting* hardest = nullptr;
    double lowest = 2;
    for (const RankedSetting& setting : board.settings) {
      if (setting.family != family || setting.results.empty()) continue;
      double sum = 0;
      for (const auto& [mixer, result] : setting.results) {
        sum += setting.AccuracyOf(result).value_or(0);
      }
      sum /= static_cast<double>(setting.results.size());
      if (sum < lowest) lowest = sum, hardest = &setting;
    }
    if (!hardest) continue;
    const auto size = [](const RankedSetting& setting) {  // without the model's width
      const std::string width = ", d " + std::to_string(setting.d_model);
      std::string text = setting.text;
      const std::size_t at = text.find(width);
      return at == text.npos ? text : text.erase(at, width.size());
    };
    std::map<int, Series> by_mixer;
    double low = 1e300;
    double high = 0;
    for (const RankedSetting& setting : board.settings) {
      if (setting.task != hardest->task || size(setting) != size(*hardest)) continue;
      for (const auto& [mixer, result] : setting.results) {
        if (!result.accuracy || result.state_bytes.value_or(0) <= 0) continue;
        low = std::min(low, *result.state_bytes);
        high = std::max(high, *result.state_bytes);
        Series& series =
            by_mixer
                .try_emplace(mixer,
                             Series{.mixer = mixer, .form = Series::Form::kThin, .has_name = true})
                .first->second;
        series.marks.push_back(
            {.x = *result.state_bytes,
             .y = *result.accuracy,
             .low = result.low,
             .high = result.high,
             .note = fmt::format("{}, {}\n{}: {} %", board.LabelOf(mixer), setting.text,
                                 Bytes(result.state_bytes), Percent(result.accuracy))});
      }
    }
    if (high <= 0) continue;
    Panel panel{.title = hardest->task + ", " + size(*hardest),
                .describe = "Accuracy over measured bytes of state, " + hardest->task,
                .x = {.label = "state per sequence",
                      .scale = Axis::Scale::kLog,
                      .low = low / 1.5,
                      .high = high * 1.5},
                .y = AccuracyAxis(false, 0)};
    panel.x.ticks = ByteTicks(panel.x.low, panel.x.high);
    for (auto& [mixer, series] : by_mixer) {
      std::sort(series.marks.begin(), series.marks.end(),
                [](const Mark& a, const Mark& b) { return a.x < b.x; });
      has_widths = has_widths || series.marks.size() > 1;
      has_intervals = has_intervals || std::any_of(series.marks.begin(), series.marks.end(),
                                                   [](const Mark& mark) { return mark.low; });
      panel.series.push_back(std::move(series));
    }
    panel.height = 285;
    AddScatter(board, std::move(panel), {.is_low_x = true}, figure);
  }
  figure.caption = {
      "What one sequence carries from token to token, measured. Left and up is better; compare "
      "mixers at equal state.",
      std::string(board.ranking.size() > kMaxInSmallCharts
                      ? "For each task family a chart for each family of mixers"
                      : "For each task family a chart") +
          ", at the setting with the lowest mean accuracy."};
  std::string signs;
  if (has_intervals) signs = "Bars: 95 % interval of the mean over seeds.";
  if (has_widths) signs += std::string(signs.empty() ? "" : " ") + "Marks joined: other widths.";
  if (!signs.empty()) figure.caption.push_back(std::move(signs));
  figure.caption.emplace_back(kNamesWithRoom);
  NameInLegend(board, figure);
  return figure;
}

Figure StepsFigure(const Leaderboard& board) {
  Figure figure{.title = "Steps over speed",
                .caption = {"How long a mixer takes to learn, in steps, and how fast it works, as "
                            "measured at " +
                                board.shape + ". Right and down is better.",
                            "Steps: median over settings of the median over seeds. A red cross: "
                            "the threshold is reached in fewer than half of the settings.",
                            kNamesWithRoom},
                .panels = {}};
  std::vector<double> speeds, steps;
  for (const RankedMixer& ranked : board.ranking) {
    if (!ranked.tokens_per_second) continue;
    speeds.push_back(*ranked.tokens_per_second);
    if (ranked.steps) steps.push_back(*ranked.steps);
  }
  if (speeds.size() < 2 || steps.empty()) return figure;
  const auto [slow, fast] = std::minmax_element(speeds.begin(), speeds.end());
  const auto [few, many] = std::minmax_element(steps.begin(), steps.end());
  constexpr double kRoom = 1.4;  // on a log axis, beside the outermost marks
  Panel panel{.title = "",
              .describe = "Steps to the threshold over training tokens per second",
              .x = {.label = "tokens per second",
                    .scale = Axis::Scale::kLog,
                    .low = *slow / kRoom,
                    .high = *fast * kRoom},
              .y = {.label = "steps to the threshold",
                    .scale = Axis::Scale::kLog,
                    .low = *few / kRoom,
                    .high = *many * kRoom * kRoom}};
  panel.x.ticks = LogTicks(panel.x.low, panel.x.high);
  panel.y.ticks = LogTicks(panel.y.low, panel.y.high);
  for (const RankedMixer& ranked : board.ranking) {
    if (!ranked.tokens_per_second) continue;
    Mark mark{.x = *ranked.tokens_per_second, .y = ranked.steps.value_or(*many * kRoom)};
    mark.note = fmt::format("{}\n{} tokens/s\n{}", board.LabelOf(ranked.mixer), Si(mark.x),
                            ranked.steps ? Count(*ranked.steps) + " steps" : "not reached");
    if (!ranked.steps) mark.failed = "never";
    panel.series.push_back({.mixer = ranked.mixer,
                            .form = Series::Form::kMarks,
                            .marks = {std::move(mark)},
                            .has_name = true});
  }
  panel.height = 285;
  AddScatter(board, std::move(panel), {.is_low_y = true}, figure);
  NameInLegend(board, figure);
  return figure;
}

HeatFigure TaskFigure(const Leaderboard& board) {
  bool is_some_chosen = false;
  bool is_all_chosen = true;
  for (const RankedSetting& setting : board.settings) {
    for (const auto& [mixer, result] : setting.results) {
      is_some_chosen = is_some_chosen || result.is_chosen;
      is_all_chosen = is_all_chosen && result.is_chosen;
    }
  }
  HeatFigure figure{.title = "By setting",
                    .caption = {std::string("Mean accuracy on the longest test segment") +
                                (!is_some_chosen ? "."
                                 : is_all_chosen ? "; the chosen rate."
                                                 : "; the chosen rate where several were tried.")},
                    .heats = {}};
  constexpr std::size_t kMaxHeatColumns = 10;
  for (const auto& [family, num] : board.families) {
    std::vector<const RankedSetting*> members;
    for (const RankedSetting& setting : board.settings) {
      if (setting.family == family) members.push_back(&setting);
    }
    for (std::size_t first = 0; first < members.size(); first += kMaxHeatColumns) {
      const std::size_t last = std::min(first + kMaxHeatColumns, members.size());
      Heat heat{.title = family, .corner = "Mixer", .columns = {}, .rows = {}};
      for (std::size_t i = first; i < last; ++i) {
        heat.columns.push_back(members[i]->task + " " + members[i]->text);
      }
      for (const RankedMixer& ranked : board.ranking) {
        std::vector<Datum> data;
        for (std::size_t i = first; i < last; ++i) {
          const SettingResult& result = members[i]->results.at(ranked.mixer);
          Datum datum;
          datum.value = result.accuracy;
          datum.state = result.is_unsupported ? CellState::kUnsupported : result.state;
          datum.text = result.accuracy         ? Percent(result.accuracy, 1)
                       : result.is_unsupported ? std::string(kNone)
                                               : std::string(NameOf(result.state));
          datum.note = fmt::format("{}, {} {}\n{} of {} seeds solved", board.LabelOf(ranked.mixer),
                                   members[i]->task, members[i]->text, result.num_solved,
                                   result.solved.size());
          data.push_back(std::move(datum));
        }
        heat.rows.emplace_back(board.LabelOf(ranked.mixer), std::move(data));
      }
      figure.heats.push_back(std::move(heat));
    }
  }
  return figure;
}

}  // namespace mixerbench::reports
