// What a reader has to know before the results of a report are believed.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "reports/view/build.h"
#include "reports/view/numbers.h"
#include "reports/view/sentences.h"
#include "reports/view/study.h"

namespace mixerbench::reports {
namespace {

// Results that are in no table of a study.
void SayHidden(const Study& study, std::vector<Sentence>& out) {
  if (study.chosen_keys.empty()) {
    std::size_t num_fresh = 0;
    for (const auto& [place, cell] : study.cells) {
      for (const GroupSummary* group : cell.all) {
        if (group->phase == CellPhase::kReport) num_fresh += group->seeds.size();
      }
    }
    if (num_fresh > 0) {
      out.push_back({"Not shown, " + study.title + ":",
                     Plural(static_cast<std::int64_t>(num_fresh), "result") +
                         " by fresh seeds, because " +
                         (study.undecided.empty() ? "the suites choose settings in different ways."
                                                  : "nothing is chosen yet.")});
    }
  }
  if (study.unplaced.empty()) return;
  std::vector<std::string> names;
  for (const GroupSummary* group : study.unplaced) names.push_back(group->name);
  out.push_back({"Not shown, " + study.title + ":",
                 FirstOf(names, ", ") + ": another has the same mixer and setting."});
}

// Of how many seeds the shown results are, where it is few: `lead` says so, with the tasks and how
// many of their results unless it holds for all.
void SaySeeds(const std::vector<Study>& studies, std::size_t least, std::size_t most,
              const std::string& lead, const std::string& text, std::vector<Sentence>& out) {
  std::vector<std::string> where;
  bool holds_for_all = true;
  for (const Study& study : studies) {
    const std::vector<std::size_t> counts = ShownSeedCounts(study);
    if (counts.empty()) continue;  // nothing ran
    const auto num = static_cast<std::size_t>(
        std::count_if(counts.begin(), counts.end(),
                      [&](std::size_t count) { return count >= least && count <= most; }));
    holds_for_all = holds_for_all && num == counts.size();
    if (num == 0) continue;
    where.push_back(study.title + (num == counts.size()
                                       ? ""
                                       : fmt::format(" ({} of {} results)", num, counts.size())));
  }
  if (where.empty()) return;
  out.push_back({lead + (holds_for_all ? "" : ", " + FirstOf(where, ", ")) + ":", text});
}

// Where trainings stop early, with the tasks unless it is the same in all.
void SayEarlyStops(const std::vector<Study>& studies, std::vector<Sentence>& out) {
  std::map<double, std::vector<std::string>> tasks;  // by accuracy
  for (const Study& study : studies) tasks[EarlyStop(study)].push_back(study.title);
  for (const auto& [stop, titles] : tasks) {
    if (stop <= 0) continue;
    out.push_back({"Training stops early at " + GuessPercent(stop) + " %" +
                       (tasks.size() == 1 ? "" : ", " + FirstOf(titles, ", ")) + ":",
                   "accuracies above it do not rank mixers."});
  }
}

}  // namespace

std::vector<Sentence> CareOf(const SweepReport& report, const std::vector<Study>& studies) {
  std::vector<Sentence> out;
  bool has_choice = false;
  for (const Study& study : studies) {
    has_choice = has_choice || (!study.chosen_keys.empty() && report.reseeds.empty());
    if (!study.undecided.empty()) {
      out.push_back({"Nothing is chosen yet:", study.undecided + "."});
    }
    SayHidden(study, out);
  }
  SaySeeds(studies, 1, 1, "One seed", "intervals cover test items, not training runs.", out);
  SaySeeds(studies, 2, kSeedsForInterval - 1, "Fewer than five seeds",
           "single seeds are shown, no intervals over seeds.", out);
  if (has_choice) {
    out.push_back({"Chosen and reported on the same seeds:",
                   "the choice is by validation accuracy, and its luck is in the result."});
  }
  SayEarlyStops(studies, out);
  if (const std::size_t num_builds = CountBuilds(report); num_builds > 1) {
    out.push_back({"Cells of " + Plural(static_cast<std::int64_t>(num_builds), "build") + ":",
                   "differences between them may be the code's."});
  }
  const bool has_run = std::any_of(report.cells.begin(), report.cells.end(),
                                   [](const CellResult& cell) { return !IsMissing(cell); });
  if (has_run && Distinct(report, "tool.git_commit").empty()) {
    const bool has_code = std::any_of(report.cells.begin(), report.cells.end(),
                                      [](const CellResult& cell) { return HasCode(cell); });
    out.push_back({"No commit", has_code ? "is recorded; the hash of the code is."
                                         : "is recorded, and no hash of the code."});
  }
  for (const std::string& dirty : Distinct(report, "tool.git_dirty")) {
    if (dirty == "true") out.push_back({"Uncommitted changes", "were in the code that ran."});
  }
  std::set<std::string> fallbacks;
  std::int64_t num_failed = 0;                   // trainings: only these have an accuracy to lose
  std::int64_t num_slowed = 0, num_dropped = 0;  // timings, samples
  for (const CellResult& cell : report.cells) {
    for (const ThroughputRow& row : cell.throughput) {
      num_slowed += row.throttled_samples_dropped > 0;
      num_dropped += row.throttled_samples_dropped;
    }
    num_failed += IsFailure(cell.state) && cell.kind == "train";
    const Value* const device_type = cell.config.Find("device_type");
    if (device_type && *device_type == Value("cpu")) continue;
    for (const PhasePlan& phase : cell.plans) {
      for (const FunctionPlan& plan : phase.functions) {
        if (plan.is_core && !plan.reason.empty()) fallbacks.insert(plan.function);
      }
    }
  }
  if (!fallbacks.empty()) {
    out.push_back({"Not the device code meant for a GPU:",
                   "ran for " + FirstOf({fallbacks.begin(), fallbacks.end()}, ", ") +
                       "; “What ran” says why."});
  }
  if (num_slowed > 0) {
    out.push_back({"The GPU was too hot or short of power",
                   "in " + Plural(num_slowed, "timing") + ": " + Plural(num_dropped, "sample") +
                       " dropped; “Lower clocks” says where and why."});
  }
  if (num_failed > 0) {
    out.push_back({Plural(num_failed, "failed training") + ":",
                   num_failed == 1 ? "its accuracy counts as chance and it is unsolved."
                                   : "their accuracies count as chance and they are unsolved."});
  }
  return out;
}

}  // namespace mixerbench::reports
