// Realistic made-up cells for tests and for trying the page: recall with five mixers and a sweep
// of lengths, one failed seed, one unsupported mixer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/result/result.h"

namespace mixerbench::reports {

// A cell with every field set to something.
CellResult ExampleCell();

// A training that completed, by itself a group of its name: no result yet.
CellResult TrainedCell(const std::string& name, std::uint64_t seed = 0);

// 3 seeds of each of 5 mixers on MQAR, and throughput cells.
std::vector<CellResult> ExampleSweep(int num_seeds = 3);

// Of a suite that chooses the rate by validation accuracy.
Value RateChoice();

}  // namespace mixerbench::reports
