// SPDX-License-Identifier: Apache-2.0
#include "reports/labels.h"

#include <algorithm>
#include <utility>

#include "reports/json.h"

namespace mixerbench::reports {

std::vector<TaskView> TaskViews(const SweepReport& report) {
  std::map<std::pair<std::string, std::string>, TaskView> views;
  for (const GroupSummary& group : report.groups) {
    const std::string task = SplitCellName(group.name).task;
    TaskView& view = views[{task, group.kind}];
    view.task = task;
    view.kind = group.kind;
    view.groups.push_back(&group);
  }
  std::vector<TaskView> list;
  for (auto& [key, view] : views) list.push_back(std::move(view));
  return list;
}

std::vector<const CellResult*> CellsOf(const SweepReport& report, const GroupSummary& group) {
  std::vector<const CellResult*> cells;
  for (const CellResult& cell : report.cells) {
    if (cell.group_id == group.group_id) cells.push_back(&cell);
  }
  return cells;
}

std::string GroupLabel(const TaskView& view, const GroupSummary& group) {
  const CellName name = SplitCellName(group.name);
  const auto same_mixer = std::count_if(
      view.groups.begin(), view.groups.end(),
      [&](const GroupSummary* other) { return SplitCellName(other->name).mixer == name.mixer; });
  if (name.mixer.empty()) return group.name;
  return same_mixer > 1 && !name.variant.empty() ? name.mixer + " " + name.variant : name.mixer;
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

std::string StatesText(const GroupSummary& group) {
  std::string text;
  for (const auto& [state, count] : group.states) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + state;
  }
  return text;
}

}  // namespace mixerbench::reports
