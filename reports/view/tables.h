// The tables of a report.
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

// A table has at most so many columns of one quantity; more settings make more tables.
inline constexpr std::size_t kMaxColumns = 14;

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

// The highest accuracy at which training stops early in the cells of a study; 0 for none.
double EarlyStop(const Study& study);

// How many seeds ran of each result that is shown; none of those that did not run.
std::vector<std::size_t> ShownSeedCounts(const Study& study);

// Accuracy, solved seeds, speed of learning and facts; mixers in rows, each with what it has of its
// own.
std::vector<Table> AccuracyTables(const Study& study, const MixerList& mixers);

// Parameters and state where they differ between settings; nothing when the main table has them.
std::optional<Table> ModelTable(const Study& study, const MixerList& mixers);

// What a phase of `throughput` is: "Forward and backward pass"; the phase itself where none knows.
std::string PhaseName(const std::string& phase);

// The time of the step, or of every phase where no step was timed.
std::vector<Table> SpeedTables(const SweepReport& report, const MixerList& mixers);

std::optional<Table> FailureTable(const SweepReport& report, const MixerList& mixers);
Table CellTable(const SweepReport& report, const MixerList& mixers);
std::optional<Table> TimingTable(const SweepReport& report, const MixerList& mixers);
std::optional<Table> PlanTable(const SweepReport& report);
std::optional<Table> TimeTable(const SweepReport& report, const MixerList& mixers);

// From this p value on two means over seeds are not told apart.
inline constexpr double kNotTold = 0.05;

// Marks the highest of a column and what is not told apart from it: means over seeds by a
// permutation test of the seeds, others where the intervals overlap. Values of `tied` and more
// count as equal. One with a failed seed in it is not marked, even where it is the highest.
void MarkHighest(Table& table, std::size_t column, std::optional<double> tied = std::nullopt);

// Marks the lowest of a column wherever it stands.
void MarkLowest(Table& table, std::size_t column);

}  // namespace mixerbench::reports
