// Realistic made-up cells for tests and for trying the page: recall with five mixers and a sweep
// of lengths, one failed seed, one unsupported mixer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "reports/result/result.h"

namespace mixerbench::reports {

// A cell with every field set to something.
CellResult ExampleCell();

// 3 seeds of each of 5 mixers on MQAR, and throughput cells.
std::vector<CellResult> ExampleSweep(int num_seeds = 3);

// Of a suite that chooses the rate by validation accuracy.
Value RateChoice();

}  // namespace mixerbench::reports
