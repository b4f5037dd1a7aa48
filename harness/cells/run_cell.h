// What every kind of cell begins and ends with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "harness/cells/train.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// The result of a cell whose rows `work` fills in, after its need of memory was found to be met.
// What `work` throws becomes the state and reason of the result.
reports::CellResult RunCell(const Cell& cell, at::Device device, const Registries& registries,
                            const std::function<void(reports::CellResult&)>& work);

// Runs `work` on inputs of `seq_len` tokens. A model may refuse those that are longer than what it
// is built for, as positions or filters end: then this throws ConfigError, which is `unsupported`.
void RunOrRefuse(std::int64_t seq_len, std::int64_t built_for, const std::function<void()>& work);

// Throws Interrupted when a stop is requested, TimedOut when the cell's time is up.
void RequireTimeLeft(const RunControl& control);

}  // namespace mixerbench::harness
