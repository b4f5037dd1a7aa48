// SPDX-License-Identifier: Apache-2.0
#include "reports/select.h"

#include <map>
#include <string>

#include "base/error.h"
#include "reports/json.h"
#include "reports/object_reader.h"

namespace mixerbench::reports {
namespace {

// Removes the member at a dotted path, if it is there.
void ErasePath(Value& value, const std::string& path) {
  if (!value.is_object()) return;
  const std::size_t dot = path.find('.');
  Object& object = value.as_object();
  const auto found = object.find(path.substr(0, dot));
  if (found == object.end()) return;
  if (dot == std::string::npos) {
    object.erase(found);
  } else {
    ErasePath(found->second, path.substr(dot + 1));
  }
}

double LastValidationAccuracy(const CellResult& cell) {
  if (cell.state != CellState::kCompleted) return 0;
  for (auto point = cell.learning_curve.rbegin(); point != cell.learning_curve.rend(); ++point) {
    if (point->validation_accuracy) return *point->validation_accuracy;
  }
  return 0;
}

}  // namespace

std::vector<std::string> SelectedOver(const Value& suite) {
  const Value* sweep = suite.Find("sweep");
  const Value* select = sweep ? sweep->Find("select") : nullptr;
  if (!select) return {};
  return ObjectReader(*select, "/sweep/select")
      .List("over", [](const Value& path, const std::string& where) {
        if (path.is_string()) return path.as_string();
        throw Error(ExitCode::kBadInput, where + ": expected a string");
      });
}

void SelectGroups(SweepReport& report) {
  const std::vector<std::string> over = SelectedOver(report.config);
  if (over.empty()) return;
  std::map<std::string, GroupSummary*> best;
  for (GroupSummary& group : report.groups) {
    if (group.kind != "train") continue;
    const auto cells = CellsOf(report, group);
    Value rest = cells.front().config;
    for (const std::string& path : over) ErasePath(rest, path);
    double sum = 0;
    for (const CellResult& cell : cells) sum += LastValidationAccuracy(cell);
    group.selection = {.score = sum / static_cast<double>(cells.size()), .selected = true};
    const auto [rival, is_first] = best.try_emplace(DumpJson(rest), &group);
    if (is_first) continue;
    if (group.selection->score > rival->second->selection->score) {
      rival->second->selection->selected = false;
      rival->second = &group;
    } else {
      group.selection->selected = false;
    }
  }
}

}  // namespace mixerbench::reports
