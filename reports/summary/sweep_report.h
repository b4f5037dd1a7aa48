// A sweep: its cells and what they say together, over seeds (`report.json`).
//
// A report is a function of its cells: built again from the same cells it has the same bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "reports/result/result.h"

namespace mixerbench::reports {

// Fewer seeds than this give no interval of a mean: it would say next to nothing
// (docs/STATISTICS.md).
inline constexpr std::size_t kSeedsForInterval = 5;

// "mqar/gla/d_model=64,lr=0.003" in its parts; missing parts are empty.
struct CellName {
  std::string task;
  std::string mixer;
  std::string variant;
};
CellName SplitCellName(const std::string& name);

// What the mixer {"name": ...} is called there: of a module in Python its class, since where its
// file lies is no name.
std::string MixerText(const Value& mixer);

// One evaluation segment, or one bucket of it, over the seeds of a group.
struct AccuracyOverSeeds {
  Object axes;
  std::string slice;
  std::string bucket;
  double chance = 0;
  std::vector<Guess> guesses;     // as in a cell
  std::optional<double> ceiling;  // the highest of the seeds'
  bool extrapolated = false;
  // Aligned with GroupSummary::seeds. A seed that failed counts as chance and is flagged; a value
  // is absent when the segment was not run for that seed.
  std::vector<std::optional<double>> per_seed;
  std::vector<bool> imputed;
  std::optional<double> mean;
  std::optional<double> median;
  std::optional<double> min;
  std::optional<double> max;
  std::optional<double> std;                // n - 1
  std::optional<Interval> ci_seeds;         // of the mean; from kSeedsForInterval values on
  std::optional<Interval> ci_items;         // of the only seed, when there is one
  CellState state = CellState::kCompleted;  // the first seed's that is not completed
  std::string reason;                       // and why
};

// Steps to the threshold; a seed that never reached it is censored and ranks last.
struct StepsOverSeeds {
  std::vector<std::optional<std::int64_t>> per_seed;
  std::optional<double> median;  // absent when half of the seeds or more are censored
  std::int64_t num_censored = 0;
};

struct SolveRate {
  std::int64_t num_solved = 0;
  std::int64_t num_seeds = 0;
  Interval ci;  // Wilson
};

// The longest input at which, and at every shorter tested one, the lower bound of a seed's
// accuracy, its interval over items, is at least kBound.
struct EffectiveLength {
  static constexpr double kBound = 0.9;
  std::vector<std::optional<std::int64_t>> per_seed;  // absent: not even at the shortest
  std::optional<std::int64_t> median;                 // the lower of two; absent values rank lowest
  std::string reason;                                 // why there is no median
};

// How a configuration fared against those it competes with (`sweep.select` of the suite).
struct Selection {
  double score = 0;  // mean over seeds of the last validation accuracy
  bool selected = false;
  std::string undecided = {};  // why nobody in this competition is selected; empty when somebody is
};

// What a competition of a suite with `sweep.select.reseed` reports: its chosen setting, by seeds
// that chose nothing.
struct Reseed {
  std::string group_id;  // of the chosen setting; empty while nothing is chosen
  std::string name;      // of the chosen one; while nothing is chosen, of the first that competes
  std::size_t num_settings = 0;            // that compete
  std::vector<std::uint64_t> seeds;        // fresh
  std::vector<std::uint64_t> unplanned{};  // those of them that have no cell yet
};

// All seeds of one configuration; of one phase, where fresh seeds are reported.
struct GroupSummary {
  std::string group_id;
  std::string name;
  std::string kind;
  CellPhase phase = CellPhase::kNone;
  std::vector<std::uint64_t> seeds;  // those that ran: completed, diverged, oom, timeout, error
  std::map<std::string, std::int64_t> states;  // of all cells, by name
  bool partial = false;                        // --limit was used
  std::optional<SolveRate> solve_rate;
  std::vector<AccuracyOverSeeds> accuracy;
  std::optional<StepsOverSeeds> steps_to_threshold;
  std::optional<EffectiveLength> effective_length;
  std::size_t first_cell = 0, num_cells = 0;  // in SweepReport::cells
  std::optional<Selection> selection;         // absent when the suite selects nothing
};

// A result that lies beside the cells of a report without being one of them.
struct LeftOut {
  std::string run_id;  // empty when the file is damaged
  std::string name;
  std::uint64_t seed = 0;
  std::string reason;  // "of other code", "of another plan", "of an earlier version", "unreadable"
};

struct SweepReport {
  std::string name;
  Value config;  // of the suite, resolved
  std::vector<CellResult> cells;
  std::vector<GroupSummary> groups;
  std::vector<Reseed> reseeds = {};  // of each competition; empty without fresh seeds
  std::vector<LeftOut> left_out = {};
};

// Of a mean over seeds; nothing for fewer than kSeedsForInterval.
std::optional<Interval> SeedInterval(std::span<const double> values);

// Sorts the cells by (name, kind, group id, phase, seed, run id) and summarises every group.
SweepReport MakeSweepReport(std::string name, Value config, std::vector<CellResult> cells);

// The cells of a group, in order of seed.
std::span<const CellResult> CellsOf(const SweepReport& report, const GroupSummary& group);

// What one cell scored on the whole segment `axes`, or nullptr.
const AccuracyRow* WholeSegment(const CellResult& cell, const Object& axes);

Value ReseedToValue(const Reseed& reseed);
Value SweepToValue(const SweepReport& report);
std::string DumpSweep(const SweepReport& report);

// Reads the cells and summarises them again. Errors: Error(kBadInput), as CellFromValue, and when
// the summaries of the file are not those of its cells. `path` is used in messages only.
SweepReport ParseSweep(std::string_view text, const std::string& path);
// What it does not compare of a file of this version, for people; empty where it compares all.
std::string NotCompared(std::string_view schema_version);

// Cells without result, those that have no row yet because their setting is not known included.
std::int64_t CountMissing(const SweepReport& report);
std::int64_t CountUnplanned(const SweepReport& report);  // of these, those without row

// True when a failed seed counts as chance in this row.
bool AnyImputed(const AccuracyOverSeeds& row);

}  // namespace mixerbench::reports
