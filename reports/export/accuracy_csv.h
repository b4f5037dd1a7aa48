// A sweep as CSV: one row per cell, seed and segment or bucket, for spreadsheets and data frames.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// RFC 4180 with LF. Numbers as in the JSON report (shares, not percent); absent values are empty.
// Cells without accuracy rows appear once, so that none is lost.
std::string RenderAccuracyCsv(const SweepReport& report);

}  // namespace mixerbench::reports
