// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/run_cell.h"

#include <chrono>
#include <stdexcept>

#include "base/error.h"
#include "harness/device/plans.h"
#include "harness/training/cell_guard.h"
#include "harness/training/memory_need.h"

namespace mixerbench::harness {

reports::CellResult RunCell(const Cell& cell, at::Device device, const Registries& registries,
                            const std::function<void(reports::CellResult&)>& work) {
  reports::CellResult result = ResultOf(cell);
  const Outcome outcome = Guard([&] {
    RequireMemory(cell, device, registries);
    work(result);
  });
  result.state = outcome.state;
  result.reason = outcome.reason;
  result.model.path = PathOf(result.plans);
  return result;
}

void RunOrRefuse(std::int64_t seq_len, std::int64_t built_for, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::logic_error& error) {
    if (seq_len <= built_for) throw;
    throw ConfigError("", error.what());
  }
}

void RequireTimeLeft(const RunControl& control) {
  if (control.stop_requested && control.stop_requested()) throw Interrupted("stopped");
  if (control.deadline && std::chrono::steady_clock::now() > *control.deadline) {
    throw TimedOut("time limit of the cell reached");
  }
}

}  // namespace mixerbench::harness
