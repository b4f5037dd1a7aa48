// Turns what a cell throws into a state with a reason: failures are results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "reports/result/result.h"

namespace mixerbench::harness {

struct Diverged : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct TimedOut : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Known before any memory is asked for.
struct LacksMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The GPU gets too hot or lacks power: the machine is not fit for what was to be timed.
struct SlowedDown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Outcome {
  reports::CellState state = reports::CellState::kCompleted;
  std::string reason;  // one line
};

// Runs `work`; false when memory for it was lacking, on the host or the device. What else it throws
// passes.
bool FitsInMemory(const std::function<void()>& work);

// Runs `work`. Diverged, TimedOut, Interrupted, SlowedDown (skipped), lack of memory (host or
// device, met or foreseen), ConfigError (a size that the mixer refuses: unsupported) and every
// other exception become an outcome.
Outcome Guard(const std::function<void()>& work);

}  // namespace mixerbench::harness
