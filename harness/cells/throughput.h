// Speed and memory of a model over lengths: medians with their samples, behind a parity check.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "harness/cells/train.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// A throughput cell. Phases:
//   fwd         backbone without head, no gradients, random tokens [batch_size, seq_len]
//   fwd_bwd     the same with gradients of all parameters from a fixed gradient of the output
//   prefill     the forward pass of fwd with the state that it leaves
//   decode      one more token of every sequence after seq_len ones: state in, state out
//   train_step  the whole training step of the cell's own task: sampling, loss, update; full
//               batches of its first training segment
// Before a row is timed its own work is compared with the reference (parity.h); one that disagrees
// gets no time. A sample that the GPU was slowed down in (kSlowdown) is dropped and taken again; a
// row of which that is more than a fifth is skipped.
reports::CellResult RunThroughputCell(const Cell& cell, at::Device device,
                                      const Registries& registries, const RunControl& control,
                                      const ProgressCallback& progress);

// The cell is what the worst of its rows is, but that memory ends within a curve is what it shows.
void TakeStateOfTimings(reports::CellResult& result);

}  // namespace mixerbench::harness
