// Scores test segments with the weights of a training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "harness/cells/train.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// A cell of kEvaluate: the rows that the training cell would have if it tested these segments, to
// the bit. Without intact weights of its training in control.weights_folder it ends as kError: it
// never trains. A segment that is too long for what the model is built for is `unsupported`, and so
// is the cell then, beside the rows of the others.
reports::CellResult RunEvaluateCell(const Cell& cell, at::Device device,
                                    const Registries& registries, const RunControl& control,
                                    const ProgressCallback& progress);

}  // namespace mixerbench::harness
