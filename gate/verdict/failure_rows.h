// What completed in base and fails in the candidate: diverged, oom, timeout, error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "gate/verdict/pairing.h"

namespace mixerbench::gate {

inline constexpr std::string_view kStateMetric = "state";

// One row for each experiment with such cells, of any kind. All seeds that completed in base fail:
// a regression, which no chance explains. Some of them: where `learning` judged the experiment they
// count there as unsolved, else the question is open.
std::vector<Row> FailureRows(const std::vector<Experiment>& experiments,
                             const std::vector<Row>& learning);

}  // namespace mixerbench::gate
