// What completed in base and fails in the candidate: diverged, oom, timeout, error, of a cell or of
// a segment of its test set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "gate/verdict/pairing.h"

namespace mixerbench::gate {

inline constexpr std::string_view kStateMetric = "state";

// One row for each experiment with such cells, of any kind. Every seed completed in base and none
// does now: a regression, which no chance explains. Else, where `learning` looked at all cells that
// failed, they count there as unsolved; where it did not, the question is open.
std::vector<Row> FailureRows(const std::vector<Experiment>& experiments,
                             const std::vector<Row>& learning);

}  // namespace mixerbench::gate
