// SPDX-License-Identifier: Apache-2.0
#include "reports/summary/select.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "io/json.h"
#include "io/object_reader.h"

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

const Value* SelectOf(const Value& suite) {
  if (const Value* merged = suite.Find("merged"); merged && merged->is_array()) {
    const Value* common = nullptr;
    for (const Value& part : merged->as_array()) {
      const Value* select = SelectOf(part);
      if (select == nullptr || (common != nullptr && !(*select == *common))) return nullptr;
      common = select;
    }
    return common;
  }
  const Value* sweep = suite.Find("sweep");
  return sweep ? sweep->Find("select") : nullptr;
}

double LastValidationAccuracy(const CellResult& cell) {
  if (cell.state != CellState::kCompleted) return 0;
  for (auto point = cell.learning_curve.rbegin(); point != cell.learning_curve.rend(); ++point) {
    if (point->validation_accuracy) return *point->validation_accuracy;
  }
  return 0;
}

// The batch size that a group trained with because memory lacked for that of the plan; else 0.
std::int64_t HalvedTo(const CellResult& cell) {
  if (!cell.halved_from) return 0;
  const Value* train = cell.config.Find("train");
  const Value* size = train ? train->Find("batch_size") : nullptr;
  return size && size->is_int() ? size->as_int() : *cell.halved_from / 2;
}

// The config that the plan asked for.
Value PlannedConfig(const CellResult& cell) {
  Value config = cell.config;
  if (cell.halved_from && config.Find("train")) {
    config.as_object()["train"].as_object()["batch_size"] = *cell.halved_from;
  }
  return config;
}

// What competing groups share.
std::string CompetitionOf(const CellResult& cell, const std::vector<std::string>& over) {
  return io::DumpJson(Without(PlannedConfig(cell), over));
}

// Groups of one config differ in what ran it alone: choosing between them would choose a build.
std::string WhyTwoBuilds(const SweepReport& report, const std::vector<GroupSummary*>& groups) {
  std::set<std::string> configs;
  for (const GroupSummary* group : groups) {
    const bool is_new =
        configs.insert(io::DumpJson(PlannedConfig(CellsOf(report, *group).front()))).second;
    if (!is_new) return group->name + " is there twice, of two builds";
  }
  return "";
}

// Why the scores of these groups cannot be compared; empty when they can.
std::string WhyUndecided(const SweepReport& report, const std::vector<GroupSummary*>& groups) {
  if (std::string reason = WhyTwoBuilds(report, groups); !reason.empty()) return reason;
  const std::int64_t first = HalvedTo(CellsOf(report, *groups.front()).front());
  for (const GroupSummary* group : groups) {
    const CellResult& cell = CellsOf(report, *group).front();
    if (HalvedTo(cell) == first) continue;
    const CellResult& halved = cell.halved_from ? cell : CellsOf(report, *groups.front()).front();
    return fmt::format("{} trained with batches of {}, not of {}: memory lacked", halved.name,
                       HalvedTo(halved), *halved.halved_from);
  }
  for (const GroupSummary* group : groups) {
    const auto cells = CellsOf(report, *group);
    const auto num_missing = std::count_if(cells.begin(), cells.end(), IsMissing);
    if (num_missing > 0) {
      return group->name + " lacks " + std::to_string(num_missing) + " of " +
             std::to_string(cells.size()) + " seeds";
    }
    if (group->seeds != groups.front()->seeds) {
      return group->name + " and " + groups.front()->name + " have different seeds";
    }
  }
  return "";
}

void Decide(const SweepReport& report, const std::vector<GroupSummary*>& groups) {
  const std::string undecided = WhyUndecided(report, groups);
  for (GroupSummary* group : groups) group->selection->undecided = undecided;
  if (!undecided.empty()) return;
  const auto best = std::max_element(
      groups.begin(), groups.end(),
      [](const auto* a, const auto* b) { return a->selection->score < b->selection->score; });
  (*best)->selection->selected = true;
}

// What is to be reported of a competition.
Reseed ReseedOf(const SweepReport& report, const std::vector<GroupSummary*>& groups,
                const SelectRule& rule) {
  Reseed reseed{.group_id = "",
                .name = groups.front()->name,
                .num_settings = groups.size(),
                .seeds = rule.fresh_seeds,
                .unplanned = rule.fresh_seeds};
  for (const GroupSummary* group : groups) {
    if (!group->selection->selected) continue;
    reseed.group_id = group->group_id;
    reseed.name = group->name;
  }
  if (reseed.group_id.empty()) return reseed;
  for (const GroupSummary& group : report.groups) {
    if (group.group_id != reseed.group_id || group.phase != CellPhase::kReport) continue;
    for (const CellResult& cell : CellsOf(report, group)) {
      std::erase(reseed.unplanned, cell.seed);
    }
  }
  return reseed;
}

}  // namespace

SelectRule SelectRuleOf(const Value& suite) {
  const Value* select = SelectOf(suite);
  if (select == nullptr) return {};
  const io::ObjectReader reader(*select, "/sweep/select");
  SelectRule rule;
  rule.over = reader.List("over", [](const Value& path, const std::string& where) {
    if (path.is_string()) return path.as_string();
    throw Error(ExitCode::kBadInput, where + ": expected a string");
  });
  if (reader.Has("reseed")) {
    const io::ObjectReader reseed = reader.Nested("reseed");
    const std::int64_t base = reseed.Has("base") ? reseed.Int("base") : kFirstFreshSeed;
    for (std::int64_t i = 0; i < reseed.Int("count"); ++i) {
      rule.fresh_seeds.push_back(static_cast<std::uint64_t>(base + i));
    }
  }
  return rule;
}

std::vector<std::string> SelectedOver(const Value& suite) { return SelectRuleOf(suite).over; }

bool IsReported(const GroupSummary& group) {
  if (group.phase == CellPhase::kSelection) return !group.selection;
  return !group.selection || group.selection->selected;
}

Value Without(Value config, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) ErasePath(config, path);
  return config;
}

void SelectGroups(SweepReport& report) {
  const SelectRule rule = SelectRuleOf(report.config);
  if (rule.over.empty()) return;
  std::map<std::string, std::vector<GroupSummary*>> competitions;
  for (GroupSummary& group : report.groups) {
    const auto cells = CellsOf(report, group);
    const bool can_run = !group.seeds.empty() || std::any_of(cells.begin(), cells.end(), IsMissing);
    if (group.kind != "train" || group.phase == CellPhase::kReport || !can_run) continue;
    double sum = 0;
    for (const CellResult& cell : cells) sum += LastValidationAccuracy(cell);
    group.selection = {.score = sum / static_cast<double>(cells.size())};
    competitions[CompetitionOf(cells.front(), rule.over)].push_back(&group);
  }
  for (const auto& [rest, groups] : competitions) {
    Decide(report, groups);
    if (!rule.fresh_seeds.empty()) report.reseeds.push_back(ReseedOf(report, groups, rule));
  }
}

}  // namespace mixerbench::reports
