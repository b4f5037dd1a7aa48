// SPDX-License-Identifier: Apache-2.0
#include "harness/suite/competition.h"

#include <algorithm>

#include "base/error.h"
#include "reports/summary/select.h"

namespace mixerbench::harness {
namespace {

Value ScoredBy(const Cell& cell) {
  Value task = TaskPlanToValue(cell.task);
  task.as_object().erase("train");
  return Object{{"task", std::move(task)},
                {"metric", std::string(NameOf(cell.train.validation_metric))}};
}

}  // namespace

void CompetitionCheck::Add(const SweepPoint& point, const Cell& cell) {
  if (over_.empty()) return;
  std::string others;
  for (const auto& [path, text] : point.axes) {
    if (std::find(over_.begin(), over_.end(), path) == over_.end()) {
      others += path + "=" + text + "\n";
    }
  }
  rivals_[others].push_back(
      {cell.name, reports::Without(ResultOf(cell).config, over_), ScoredBy(cell)});
}

void CompetitionCheck::Require() const {
  for (const auto& [others, rivals] : rivals_) {
    const Rival& first = rivals.front();
    for (const Rival& rival : rivals) {
      const std::string both = "'" + first.name + "' and '" + rival.name + "' ";
      if (!(rival.scored == first.scored)) {
        throw ConfigError("/sweep/select/over",
                          both +
                              "are scored on other data or by another metric, so neither is the "
                              "better one; choose over what leaves these as they are");
      }
      if (rival.rest == first.rest) continue;
      throw ConfigError("/sweep/select/over",
                        both +
                            "differ in more than these paths once all options are spelt out, so "
                            "they would not compete; choose over options of train and model that "
                            "set no others");
    }
  }
}

}  // namespace mixerbench::harness
