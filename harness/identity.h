// Who a cell is: hashes of everything that can change its result, and of nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/cell.h"
#include "harness/registries.h"
#include "tasks/task.h"

namespace mixerbench::harness {

class CellIdentifier {
 public:
  // The registries must outlive it.
  explicit CellIdentifier(const Registries& registries) : registries_(registries) {}

  // Sets run_id, group_id and data_hash from the rest of the cell.
  void Identify(Cell& cell);

 private:
  Value HashData(const TaskPlan& plan, std::uint64_t train_seed);
  Value HashSplit(const TaskPlan& plan, const std::vector<Segment>& segments, std::uint64_t seed,
                  tasks::Split split);

  const Registries& registries_;
  std::map<std::string, std::string> known_;  // splits that many cells share
};

}  // namespace mixerbench::harness
