// The tables of a report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"
#include "reports/view/mixer_list.h"
#include "reports/view/page.h"
#include "reports/view/study.h"

namespace mixerbench::reports {

// A table has at most so many columns of one quantity; more settings make more tables.
inline constexpr std::size_t kMaxColumns = 14;

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

}  // namespace mixerbench::reports
