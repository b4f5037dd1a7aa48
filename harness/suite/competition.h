// Whether the settings among which a suite chooses ("/sweep/select") can compete in its reports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/value.h"
#include "harness/suite/cell.h"
#include "harness/suite/sweep.h"

namespace mixerbench::harness {

class CompetitionCheck {
 public:
  // `over`: the axes of the choice, by their paths.
  explicit CompetitionCheck(std::vector<std::string> over) : over_(std::move(over)) {}

  void Add(const SweepPoint& point, const Cell& cell);

  // Of all that were added, points that differ in the axes of the choice alone: throws ConfigError
  // where reports would not find them to be rivals, since an axis brings other defaults or stands
  // elsewhere once it is spelt out, and where their scores say nothing of each other, since they
  // are of other data or another metric.
  void Require() const;

 private:
  struct Rival {
    std::string name;
    Value rest;    // of its configuration without what is chosen over
    Value scored;  // what its scores are of
  };

  std::vector<std::string> over_;
  std::map<std::string, std::vector<Rival>> rivals_;  // by the values of all other axes
};

}  // namespace mixerbench::harness
