// Shapes at which cells are timed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <string>

#include "reports/result/result.h"

namespace mixerbench::gate {

// "fwd_bwd, 8 x 4096, bf16": phase, sequences x tokens, type of a ThroughputRow or a TimeKey.
template <typename Timed>
std::string ShapeText(const Timed& timed) {
  return fmt::format("{}, {} x {}, {}", timed.phase, timed.batch_size, timed.seq_len, timed.dtype);
}

// What the other side timed at the shape of `like`; nullptr when it did not.
const reports::ThroughputRow* FindShape(const reports::CellResult& cell,
                                        const reports::ThroughputRow& like);

}  // namespace mixerbench::gate
