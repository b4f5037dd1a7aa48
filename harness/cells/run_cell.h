// What every kind of cell begins and ends with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "harness/cells/train.h"
#include "harness/device/graph.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start);

// Adds what an attempt spent to what earlier ones did, which `result` holds. The energy of all is
// known when that of each is.
void AddSpent(double seconds, const std::optional<double>& joules, reports::CellResult& result);

// What a cell of any kind runs with; each kind adds its own.
class CellRun {
 public:
  // What is passed by reference must outlive it.
  CellRun(const Cell& cell, at::Device device, const Registries& registries,
          const RunControl& control, const ProgressCallback& progress, reports::CellResult& result)
      : cell_(cell),
        device_(device),
        registries_(registries),
        control_(control),
        progress_(progress),
        result_(result) {}

 protected:
  // From now on a recurrence that runs without its device code ends the cell.
  void RequireDeviceCores(GraphContext& graphs) const;
  // Throws Interrupted when a stop is requested, TimedOut when the cell's time is up.
  void RequireTimeLeft() const;

  const Clock::time_point start_ = Clock::now();
  const Cell& cell_;
  at::Device device_;
  const Registries& registries_;
  const RunControl& control_;
  const ProgressCallback& progress_;
  reports::CellResult& result_;
};

// The result of a cell that `work` fills in, after its need of memory was found to be met. What
// `work` throws becomes the state and reason of the result.
reports::CellResult RunCell(const Cell& cell, at::Device device, const Registries& registries,
                            const RunControl& control, const ProgressCallback& progress,
                            const std::function<void(const CellRun&)>& work);

// A cell that came to its end without a row that it was asked for is not completed: it takes the
// state of the worst of these rows, the first of equals, and says which it is. `row` names it.
void TakeStateOf(const std::string& row, reports::CellState state, const std::string& reason,
                 reports::CellResult& result);

// Runs `work` on inputs of `seq_len` tokens. A model may refuse those that are longer than what it
// is built for, as positions or filters end: then this throws ConfigError, which is `unsupported`.
void RunOrRefuse(std::int64_t seq_len, std::int64_t built_for, const std::function<void()>& work);

}  // namespace mixerbench::harness
