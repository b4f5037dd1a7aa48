// G4: time by rule R (docs/GATE.md), memory, state, time of capture, shapes that fail.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gate/verdict/calibration.h"
#include "gate/verdict/comparison.h"
#include "gate/verdict/pairing.h"
#include "gate/verdict/timings.h"

namespace mixerbench::gate {

// Rule R on the pairs of one stage: the lower bound of the median log ratio is above 0 and the
// median above the margin.
bool FailsRuleR(std::span<const double> log_ratios, const GateSettings& settings);

// Of paired processes, and of what the reports timed and no pair did; without `timings` (nullptr),
// of the single processes of the two reports, shown only.
std::vector<Row> TimeRows(const std::vector<Experiment>& experiments, const Timings* timings,
                          const Calibration* calibration, const GateSettings& settings);

// Peak memory and state (one run is enough), capture, and shapes that ended otherwise than before.
std::vector<Row> ResourceRows(const std::vector<Experiment>& experiments,
                              const GateSettings& settings);

}  // namespace mixerbench::gate
