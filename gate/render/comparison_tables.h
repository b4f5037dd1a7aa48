// The tables of a comparison's page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gate/verdict/comparison.h"
#include "reports/view/page.h"

namespace mixerbench::gate {

reports::Table DecidingTable(const Comparison& comparison);
reports::Table StepsTable(const Comparison& comparison);
reports::Table SolveRateTable(const Comparison& comparison);
reports::Table AccuracyTable(const Comparison& comparison);
reports::Table TimeTable(const Comparison& comparison);
reports::Table ResourceTable(const Comparison& comparison);
reports::Table ExactTable(const Comparison& comparison);
reports::Table SegmentTable(const Comparison& comparison);

}  // namespace mixerbench::gate
