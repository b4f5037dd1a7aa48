// Looks into a trained model: what its mixers' taps record on test segments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "harness/cells/train.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// A cell of kAnalyse: a row of statistics for each test segment, tap and place in the model. A tap
// that no layer records is a row `skipped` that says what they do record. Weights as in
// RunEvaluateCell.
reports::CellResult RunAnalyseCell(const Cell& cell, at::Device device,
                                   const Registries& registries, const RunControl& control,
                                   const ProgressCallback& progress);

}  // namespace mixerbench::harness
