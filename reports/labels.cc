// SPDX-License-Identifier: Apache-2.0
#include "reports/labels.h"

#include <algorithm>
#include <utility>

#include "reports/json.h"
#include "reports/select.h"

namespace mixerbench::reports {

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
    ++view.num_groups[name.mixer];
  }
  std::vector<TaskView> list;
  for (auto& [key, view] : views) list.push_back(std::move(view));
  return list;
}

std::string GroupLabel(const TaskView& view, const GroupSummary& group) {
  const CellName name = SplitCellName(group.name);
  if (name.mixer.empty()) return group.name;
  const bool has_variants = view.num_groups.at(name.mixer) > 1 && !name.variant.empty();
  return has_variants ? name.mixer + " " + name.variant : name.mixer;
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

std::string SelectionText(const SweepReport& report) {
  std::string over;
  for (const std::string& path : SelectedOver(report.config)) {
    over += (over.empty() ? "" : ", ") + path;
  }
  if (over.empty()) return "";
  for (const GroupSummary& group : report.groups) {
    if (!group.selection || group.selection->undecided.empty()) continue;
    return " No " + over + " is selected yet: " + group.selection->undecided + ".";
  }
  return " Best of " + over + " by validation accuracy; all settings are in report.json.";
}

std::vector<std::string> PlanNotes(const SweepReport& report) {
  std::vector<std::string> notes;
  if (const std::int64_t missing = CountMissing(report); missing > 0) {
    notes.push_back("Not finished: " + std::to_string(missing) + " of " +
                    std::to_string(report.cells.size()) + " planned cells have no result yet.");
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
