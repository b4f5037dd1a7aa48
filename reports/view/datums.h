// The cells of tables: one result each, as text, number, interval and note.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/view/page.h"
#include "reports/view/study.h"

namespace mixerbench::reports {

// Accuracies over fewer items have one decimal.
inline constexpr std::int64_t kItemsForTwoDecimals = 1000;

// A text, kNone for an empty one.
Datum TextDatum(std::string text, std::string sub = "");

// A number and how it is written; nothing without a number.
Datum NumberDatum(std::optional<double> value, std::string text);

// The interval of a share in percent, "97.12–99.87"; "≥ 98.6" where all were right.
std::string IntervalText(const Interval& interval, double value, int decimals);

// "97.12 · 99.87"
std::string SeedList(const std::vector<std::optional<double>>& seeds, int decimals);

// One accuracy over the seeds of a group, with its interval, counts and chosen rate.
Datum AccuracyDatum(const Study& study, const GroupSummary* group, std::size_t segment);

// Median steps to the threshold; "not reached" where half of the seeds or more never did.
Datum StepsDatum(const Study& study, const GroupSummary* group);

// Seeds that solved, "4 of 5", with the interval of the rate.
Datum SolvedDatum(const GroupSummary* group);

// The median of the longest lengths at which the threshold is held.
Datum LengthDatum(const GroupSummary* group);

// Parameters, and the bytes that one sequence carries from token to token, of the first cell that
// knows them.
Datum ParamsDatum(const Study& study, const GroupSummary* group);
Datum StateSizeDatum(const Study& study, const GroupSummary* group);

}  // namespace mixerbench::reports
