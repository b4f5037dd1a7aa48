// The noise of a runner, from comparing a build with itself (A/A).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/value.h"
#include "gate/verdict/pairing.h"
#include "gate/verdict/timings.h"

namespace mixerbench::gate {

struct Calibration {
  std::string runner = {};     // the device and what drives it
  std::string made = {};       // UTC, ISO 8601
  std::int64_t num_times = 0;  // rows of times behind it
  // 99th percentile over these rows of the size of the median log ratio of their pairs.
  double time_p99 = 0;
  // One standard deviation of paired differences of accuracy, by task.
  std::map<std::string, double> accuracy_sd = {};

  // The smallest growth of a time that may be called one: three times what noise does.
  double LeastTimeGrowth() const;
};

// "NVIDIA H200, CUDA 13.0, driver 13.0".
std::string RunnerOf(const Side& side);

// Of two runs of one build, with `num_pairs` pairs of its processes for each shape. Throws
// Error(kMissing) when anything of them is of other code, or pairs are missing.
Calibration Calibrate(const Side& base, const Side& candidate, const Timings& timings,
                      std::int64_t num_pairs, std::string made);

Value CalibrationToValue(const Calibration& calibration);
// Throws Error(kBadInput).
Calibration CalibrationFromValue(const Value& value);

}  // namespace mixerbench::gate
