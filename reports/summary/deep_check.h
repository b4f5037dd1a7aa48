// Recomputes the aggregates inside cells from what they are made of: shares from counts, medians
// and rates from samples, steps from curves, verdicts on parity from errors. Summaries over seeds
// are compared when a report is read (ParseSweep).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// What does not agree, a line each; empty when all does.
std::vector<std::string> DeepFaults(const SweepReport& report);

}  // namespace mixerbench::reports
