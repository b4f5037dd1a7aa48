// What `doctor` says of a GPU by its driver: its clocks, and whether anybody else uses it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "harness/device/gpu_monitor.h"
#include "harness/device/health_check.h"

namespace mixerbench::harness {

// Clocks, power limit and reasons for lower clocks; a warning when the GPU is slowed down now.
HealthCheck CheckClocks(const std::string& name, const GpuMonitor& gpu);

// A GPU is idle when for kQuietTime no process computes on it and less than kBusyPercent of the
// time any kernel runs.
inline constexpr std::int64_t kBusyPercent = 5;
inline constexpr std::chrono::seconds kQuietTime{5};

// Where time comes from; another one in tests.
struct WaitClock {
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(std::chrono::milliseconds)> sleep;
  static WaitClock OfMachine();
};

// Waits until the GPU is idle. Fails, with who is there, when it is busy after `limit`; at once
// when the driver does not tell who uses it. `say`: what it waits for, now and then. The process
// must not use the GPU yet.
HealthCheck WaitUntilIdle(const GpuMonitor& gpu, std::chrono::duration<double> limit,
                          const WaitClock& clock,
                          const std::function<void(const std::string&)>& say);

}  // namespace mixerbench::harness
