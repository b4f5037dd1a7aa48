// Two reports, one verdict. Pure: the same reports and settings give the same comparison.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gate/verdict/calibration.h"
#include "gate/verdict/comparison.h"
#include "gate/verdict/pairing.h"
#include "gate/verdict/settings.h"
#include "gate/verdict/timings.h"

namespace mixerbench::gate {

struct CompareInputs {
  Side base, candidate;
  const Timings* timings = nullptr;  // pairs of processes; nullptr where none were asked for
  const Calibration* calibration = nullptr;  // of the runner
};

Comparison CompareReports(const CompareInputs& inputs, const GateSettings& settings);

// True when some row that failed rule R wants the fresh pairs of a second stage.
bool WantsSecondStage(const Timings& timings, const GateSettings& settings);

}  // namespace mixerbench::gate
