// Trains one cell and scores it. Everything that can go wrong inside becomes a state of the result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "harness/cell.h"
#include "harness/registries.h"
#include "reports/result.h"

namespace mixerbench::harness {

struct Progress {
  std::int64_t step = 0;
  std::int64_t num_steps = 0;  // at most; early stopping may end sooner
  std::optional<double> validation_accuracy;
};

struct RunLimits {
  std::optional<std::chrono::steady_clock::time_point> deadline;  // past it: CellState::kTimeout
};

// Called after every logging interval and every evaluation batch.
using ProgressCallback = std::function<void(const Progress&)>;

// A training cell: learning curve, evaluation of every test segment, model facts. Never throws for
// divergence, lack of memory, timeouts or unsupported sizes: those are states. Other exceptions
// become kError with their message.
reports::CellResult RunTrainCell(const Cell& cell, at::Device device, const Registries& registries,
                                 const RunLimits& limits, const ProgressCallback& progress);

}  // namespace mixerbench::harness
