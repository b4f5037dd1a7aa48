// SPDX-License-Identifier: Apache-2.0
#include "gate/render/cell_labels.h"

#include <set>

#include "gate/verdict/pairing.h"
#include "reports/summary/sweep_report.h"
#include "reports/view/cell_parts.h"

namespace mixerbench::gate {
namespace {

bool IsFresh(const std::string& cell) { return cell.ends_with(kFreshSuffix); }

std::string WithoutSuffix(const std::string& cell) {
  return IsFresh(cell) ? cell.substr(0, cell.size() - kFreshSuffix.size()) : cell;
}

// "mqar/gla/d_model=64", and not "12 results in base".
bool IsCell(const std::string& name) { return !reports::SplitCellName(name).mixer.empty(); }

std::vector<std::string> NamesOf(const Comparison& comparison) {
  std::set<std::string> names;
  for (const Row& row : comparison.rows) names.insert(WithoutSuffix(row.cell));
  for (const Detail& detail : comparison.details) names.insert(WithoutSuffix(detail.cell));
  for (const Note& note : comparison.notes) names.insert(WithoutSuffix(note.cell));
  std::erase_if(names, [](const std::string& name) { return !IsCell(name); });
  return {names.begin(), names.end()};
}

reports::MixerList MixersOf(const std::vector<std::string>& names, const Comparison& comparison) {
  std::map<std::string, Value> models;
  for (const std::string& name : names) {
    const auto found = comparison.models.find(name);
    models[name] = found == comparison.models.end() ? Value() : found->second;
  }
  return reports::MixerList(models);
}

}  // namespace

std::string Joined(const std::string& text, const std::string& more) {
  return text + (text.empty() || more.empty() ? "" : ", ") + more;
}

std::string CellLabel::Text() const { return Joined(Joined(task, name), setting); }

CellLabels::CellLabels(const Comparison& comparison)
    : names_(NamesOf(comparison)), mixers_(MixersOf(names_, comparison)) {
  for (const std::string& name : names_) {
    const std::string task = reports::SplitCellName(name).task;
    ++num_cells_[task];
    for (const auto& [key, value] : reports::PartsOf(name)) ++values_[task][key][value];
  }
  for (const auto& [task, keys] : values_) {
    for (const auto& [key, counts] : keys) {
      const auto& [value, count] = *counts.begin();
      if (count < num_cells_[task]) continue;
      shared_[task] = Joined(shared_[task], reports::PartText(key, value));
    }
  }
}

CellLabel CellLabels::Of(const std::string& cell) const {
  const std::string name = WithoutSuffix(cell);
  if (!IsCell(name)) return {.name = cell, .setting = "", .task = ""};
  CellLabel label{.mixer = mixers_.IndexOf(reports::MixerKey(name)),
                  .name = "",
                  .setting = "",
                  .task = reports::SplitCellName(name).task};
  label.name = reports::LabelOf(mixers_, label.mixer);
  const auto& keys = values_.find(label.task);
  for (const auto& [key, value] : reports::PartsOf(name)) {
    if (keys->second.at(key).at(value) == num_cells_.at(label.task)) continue;
    label.setting = Joined(label.setting, reports::PartText(key, value));
  }
  if (IsFresh(cell)) label.setting = Joined(label.setting, "fresh seeds");
  return label;
}

}  // namespace mixerbench::gate
