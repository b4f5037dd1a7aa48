// The tables of a comparison's page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gate/render/cell_labels.h"
#include "gate/verdict/comparison.h"
#include "reports/view/page.h"

namespace mixerbench::gate {

reports::Table DecidingTable(const Comparison& comparison, const CellLabels& labels);
reports::Table StepsTable(const Comparison& comparison, const CellLabels& labels);
reports::Table SolveRateTable(const Comparison& comparison, const CellLabels& labels);
reports::Table AccuracyTable(const Comparison& comparison, const CellLabels& labels);
reports::Table TimeTable(const Comparison& comparison, const CellLabels& labels);
reports::Table ResourceTable(const Comparison& comparison, const CellLabels& labels);
reports::Table ExactTable(const Comparison& comparison, const CellLabels& labels);
reports::Table SegmentTable(const Comparison& comparison, const CellLabels& labels);

// The full name of every cell beside its label.
reports::Table NamesTable(const CellLabels& labels);

}  // namespace mixerbench::gate
