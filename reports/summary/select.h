// Choosing the best of some settings, such as the learning rate, by what validation says of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// `sweep.select` of a suite, {"over": ["train.lr"], "by": "validation.accuracy"}, perhaps with
// "reseed": {"count": 5}: then a chosen setting is trained again by fresh seeds, and its figures
// are theirs.
struct SelectRule {
  std::vector<std::string> over;           // empty: nothing is selected
  std::vector<std::uint64_t> fresh_seeds;  // empty: the seeds that chose are reported
};

// Fresh seeds are numbered from here unless "reseed" has a "base": far from those of any sweep, so
// that more seeds of a sweep change no fresh one.
inline constexpr std::int64_t kFirstFreshSeed = 1'000'000;

// Of a plan that merged several suites, the rule that all of them have; none when they differ.
// Throws Error(kBadInput) when the form is another.
SelectRule SelectRuleOf(const Value& suite);

// SelectRule::over alone.
std::vector<std::string> SelectedOver(const Value& suite);

// Sets GroupSummary::selection and SweepReport::reseeds. Groups compete when they differ in nothing
// but the paths of `over`; the highest mean over seeds of the last validation accuracy wins, ties
// go to the first by name, and a seed that failed counts as 0. Test results play no part, and nor
// do groups of fresh seeds. Means over different seeds cannot be compared: while seeds of a group
// are missing, or groups have other seeds, its competition is undecided. So it is where one trained
// with a smaller batch than the plan asks for, as memory lacked, and not all did, and where two
// have the same config, of two builds. Nothing happens without a rule.
void SelectGroups(SweepReport& report);

// Whether the figures of a group are those of its setting: it was chosen, or nothing chooses; where
// fresh seeds are reported, it is the group of these. A group that cannot run stands for itself.
bool IsReported(const GroupSummary& group);

// A config without the members at these dotted paths; those that it lacks are no error.
Value Without(Value config, const std::vector<std::string>& paths);

}  // namespace mixerbench::reports
