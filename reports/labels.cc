// SPDX-License-Identifier: Apache-2.0
#include "reports/labels.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <sstream>
#include <utility>

#include "reports/json.h"
#include "reports/select.h"
#include "reports/text.h"

namespace mixerbench::reports {
namespace {

// "d_model=64,lr=0.003" in its parts.
std::vector<std::string> PartsOf(const GroupSummary& group) {
  std::vector<std::string> parts;
  std::istringstream variant(SplitCellName(group.name).variant);
  for (std::string part; std::getline(variant, part, ',');) parts.push_back(std::move(part));
  return parts;
}

std::string KeyOf(const std::string& part) { return part.substr(0, part.find('=')); }

// The last steps of dotted paths, "train.lr" -> "lr".
std::set<std::string> KeysOf(const std::vector<std::string>& paths) {
  std::set<std::string> keys;
  for (const std::string& path : paths) keys.insert(path.substr(path.rfind('.') + 1));
  return keys;
}

// "d_model=64" -> "d_model 64"
std::string Spaced(std::string part) {
  if (const auto equals = part.find('='); equals != part.npos) part[equals] = ' ';
  return part;
}

template <typename Keep>
std::string PartsText(const GroupSummary& group, Keep keep) {
  std::string text;
  for (const std::string& part : PartsOf(group)) {
    if (keep(part)) text += (text.empty() ? "" : ", ") + Spaced(part);
  }
  return text;
}

std::string SettingText(const TaskView& view, const GroupSummary& group) {
  return PartsText(group,
                   [&](const std::string& part) { return view.varying.contains(KeyOf(part)); });
}

bool IsSelected(const GroupSummary& group) { return group.selection && group.selection->selected; }

void SortParts(const std::set<std::string>& chosen_keys, TaskView& view) {
  std::map<std::string, std::size_t> num_groups;                        // by part
  std::map<std::pair<std::string, std::string>, std::string> value_of;  // by mixer and key
  for (const GroupSummary* group : view.groups) {
    const std::string mixer = SplitCellName(group->name).mixer;
    for (const std::string& part : PartsOf(*group)) {
      if (IsSelected(*group) && chosen_keys.contains(KeyOf(part))) {
        view.chosen.insert(part);
        continue;
      }
      ++num_groups[part];
      const auto [known, is_new] = value_of.try_emplace({mixer, KeyOf(part)}, part);
      if (!is_new && known->second != part) view.varying.insert(KeyOf(part));
    }
  }
  for (const auto& [part, count] : num_groups) {
    if (count == view.groups.size()) view.common.insert(part);
  }
}

// Over what the suite selects, and whether it could.
std::string SelectionText(const SweepReport& report) {
  const std::string over = fmt::format("{}", fmt::join(SelectedOver(report.config), ", "));
  if (over.empty()) return "";
  for (const GroupSummary& group : report.groups) {
    if (!group.selection || group.selection->undecided.empty()) continue;
    return " No " + over + " is selected yet: " + group.selection->undecided + ".";
  }
  return " Chosen: the best " + over + " by validation accuracy; all settings are in report.json.";
}

}  // namespace

std::vector<TaskView> TaskViews(const SweepReport& report) {
  std::map<std::pair<std::string, std::string>, TaskView> views;
  for (const GroupSummary& group : report.groups) {
    const auto& selection = group.selection;
    if (selection && !selection->selected && selection->undecided.empty()) continue;
    const CellName name = SplitCellName(group.name);
    TaskView& view = views[{name.task, group.kind}];
    view.task = name.task;
    view.kind = group.kind;
    view.groups.push_back(&group);
  }
  const std::set<std::string> chosen_keys = KeysOf(SelectedOver(report.config));
  std::vector<TaskView> list;
  for (auto& [key, view] : views) {
    SortParts(chosen_keys, view);
    list.push_back(std::move(view));
  }
  return list;
}

std::string GroupLabel(const TaskView& view, const GroupSummary& group) {
  const CellName name = SplitCellName(group.name);
  const std::string parts = PartsText(group, [&](const std::string& part) {
    return !view.common.contains(part) && !(IsSelected(group) && view.chosen.contains(part));
  });
  return (name.mixer.empty() ? group.name : name.mixer) + (parts.empty() ? "" : "; " + parts) +
         (group.partial ? " (limited)" : "");
}

std::vector<TableView> TablesOf(const TaskView& view) {
  std::set<std::string> mixers;
  std::vector<TableView> tables;
  for (const GroupSummary* group : view.groups) {
    mixers.insert(SplitCellName(group->name).mixer);
    const std::string setting = SettingText(view, *group);
    auto table = std::find_if(tables.begin(), tables.end(),
                              [&](const TableView& t) { return t.setting == setting; });
    if (table == tables.end()) {
      tables.push_back({setting, view});
      tables.back().view.groups.clear();
      table = std::prev(tables.end());
    }
    table->view.groups.push_back(group);
    for (const std::string& part : PartsOf(*group)) {
      if (view.varying.contains(KeyOf(part))) table->view.common.insert(part);
    }
  }
  if (mixers.size() == 1 || tables.size() == 1) return {{"", view}};
  return tables;
}

std::string ChosenText(const TaskView& view, const GroupSummary& group) {
  return PartsText(group, [&](const std::string& part) {
    return IsSelected(group) && view.chosen.contains(part);
  });
}

std::vector<const AccuracyOverSeeds*> WholeSegments(const TaskView& view) {
  std::vector<const AccuracyOverSeeds*> segments;
  for (const GroupSummary* group : view.groups) {
    for (const AccuracyOverSeeds& row : group->accuracy) {
      const bool known = std::any_of(segments.begin(), segments.end(),
                                     [&](const auto* s) { return s->axes == row.axes; });
      if (row.slice.empty() && !known) segments.push_back(&row);
    }
  }
  return segments;
}

const AccuracyOverSeeds* FindWhole(const GroupSummary& group, const Object& axes) {
  for (const AccuracyOverSeeds& row : group.accuracy) {
    if (row.slice.empty() && row.axes == axes) return &row;
  }
  return nullptr;
}

std::optional<double> CeilingOf(const TaskView& view, const Object& axes) {
  std::optional<double> highest;
  for (const GroupSummary* group : view.groups) {
    const AccuracyOverSeeds* row = FindWhole(*group, axes);
    if (row != nullptr) highest = std::max(highest, row->ceiling);
  }
  return highest < 1.0 ? highest : std::nullopt;
}

std::vector<GuessRow> GuessRows(const std::vector<const AccuracyOverSeeds*>& segments) {
  std::vector<GuessRow> rows;
  const auto row_of = [&](const std::string& name) -> GuessRow& {
    for (GuessRow& row : rows) {
      if (row.name == name) return row;
    }
    rows.push_back({name, std::vector<std::optional<double>>(segments.size())});
    return rows.back();
  };
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i]->guesses.empty()) row_of("chance").accuracy[i] = segments[i]->chance;
    bool is_chance = true;  // the first one
    for (const Guess& guess : segments[i]->guesses) {
      row_of((is_chance ? "chance: " : "guess: ") + guess.name).accuracy[i] = guess.accuracy;
      is_chance = false;
    }
  }
  return rows;
}

std::optional<Guess> StrongestGuess(const std::vector<Guess>& guesses) {
  if (guesses.empty()) return std::nullopt;
  return *std::max_element(guesses.begin(), guesses.end(),
                           [](const Guess& a, const Guess& b) { return a.accuracy < b.accuracy; });
}

AccuracyText TextOf(const AccuracyOverSeeds& row) {
  AccuracyText text;
  if (!row.mean) {
    text.value = NameOf(row.state);
    return text;
  }
  text.value = FormatPercent(*row.mean) + (AnyImputed(row) ? " †" : "");
  if (row.std) text.seeds = FormatPercentRange(*row.min, *row.max);
  if (const auto& ci = row.ci_seeds ? row.ci_seeds : row.ci_items) {
    text.interval = FormatPercentRange(ci->low, ci->high);
  }
  return text;
}

std::string AccuracyCaption(const SweepReport& report, const TaskView& view) {
  std::string caption = fmt::format(
      "Percent of scored positions answered right, mean over seeds. (Lowest–highest seed.) [95 % "
      "interval: of the mean over seeds, whatever their distribution, from {} seeds on; of one "
      "seed alone over the samples.] † a failed seed counts as chance. Solved: seeds that reached "
      "the "
      "threshold.",
      kSeedsForInterval);
  const auto segments = WholeSegments(view);
  const auto any = [&](auto holds) { return std::any_of(segments.begin(), segments.end(), holds); };
  if (any([](const AccuracyOverSeeds* s) { return s->extrapolated; })) {
    caption += " ⤳ longer than anything trained on.";
  }
  if (any([&](const AccuracyOverSeeds* s) { return CeilingOf(view, s->axes).has_value(); })) {
    caption += " Ceiling: the answers that the training data tell.";
  }
  caption += SelectionText(report);
  if (!view.common.empty()) {
    std::string common;
    for (const std::string& part : view.common) {
      common += (common.empty() ? "" : ", ") + Spaced(part);
    }
    caption += " Everywhere: " + common + ".";
  }
  return caption;
}

SolvedText TextOf(const std::optional<SolveRate>& rate) {
  if (!rate) return {};
  return {fmt::format("{}/{}", rate->num_solved, rate->num_seeds),
          FormatPercentRange(rate->ci.low, rate->ci.high)};
}

std::map<std::string, int> LabelStyles(const SweepReport& report) {
  std::map<std::string, int> styles;
  for (const TaskView& view : TaskViews(report)) {
    for (const GroupSummary* group : view.groups) styles[GroupLabel(view, *group)] = 0;
  }
  int next = 0;
  for (auto& [label, style] : styles) style = next++;
  return styles;
}

std::string AxesText(const Object& axes) {
  std::string text;
  for (const auto& [axis, value] : axes) {
    text += (text.empty() ? "" : ", ") + axis + " " +
            (value.is_string() ? value.as_string() : DumpJson(value));
  }
  return text;
}

std::vector<std::string> PlanNotes(const SweepReport& report) {
  std::vector<std::string> notes;
  if (const std::int64_t missing = CountMissing(report); missing > 0) {
    notes.push_back("Not finished: " + std::to_string(missing) + " of " +
                    std::to_string(report.cells.size()) + " planned cells have no result yet.");
  }
  const auto num_limited = std::count_if(report.cells.begin(), report.cells.end(),
                                         [](const CellResult& cell) { return cell.partial; });
  if (num_limited > 0) {
    notes.push_back(fmt::format("{} of {} cells ran with a limit: they compare with nothing.",
                                num_limited, report.cells.size()));
  }
  std::map<std::string, std::vector<std::string>> names;  // by reason
  for (const LeftOut& result : report.left_out) {
    names[result.reason].push_back(result.name + " seed " + std::to_string(result.seed));
  }
  for (const auto& [reason, results] : names) {
    constexpr std::size_t kMaxNames = 3;
    std::string note = "Left out: " + std::to_string(results.size()) +
                       (results.size() == 1 ? " result " : " results ") + reason;
    for (std::size_t i = 0; i < std::min(results.size(), kMaxNames); ++i) {
      note += (i == 0 ? ": " : ", ") + results[i];
    }
    notes.push_back(note + (results.size() > kMaxNames ? ", …" : "."));
  }
  return notes;
}

std::string StatesText(const GroupSummary& group) {
  std::string text;
  for (const auto& [state, count] : group.states) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + state;
  }
  return text;
}

}  // namespace mixerbench::reports
