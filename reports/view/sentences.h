// What a report says first: counts and rules, no praise and no causes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "reports/view/mixer_list.h"
#include "reports/view/page.h"
#include "reports/view/study.h"

namespace mixerbench::reports {

// How many settings are solved and which are not, fewest steps, extrapolation, seeds, speed.
std::vector<Sentence> GlanceOf(const SweepReport& report, const std::vector<Study>& studies,
                               const MixerList& mixers);

// One seed; a rate chosen and reported on the same seed; early stop; cells of two builds; no
// commit; a fallback ran; failed cells.
std::vector<Sentence> CareOf(const SweepReport& report, const std::vector<Study>& studies);

// What is the same in all rows of a study, and what was varied.
std::vector<Fact> SetupOf(const Study& study);

// The seeds of a study that ran: those that choose, or the fresh ones that are reported.
std::set<std::uint64_t> SeedsOf(const Study& study, bool fresh);

// A fact for each part of the environment; several values where cells differ.
std::vector<Fact> EnvironmentOf(const SweepReport& report);

// The terms that the page uses.
std::vector<Sentence> TermsOf(const SweepReport& report);

// What makes the report less than it seems: missing cells, a limit.
std::vector<Sentence> BannerOf(const SweepReport& report);

// The first `most` of `parts`, and how many more there are: "a, b and 3 more".
std::string FirstOf(const std::vector<std::string>& parts, const std::string& between,
                    std::size_t most = 4);

// The distinct values at a path of the environments, in order.
std::vector<std::string> Distinct(const SweepReport& report, const std::string& path);

}  // namespace mixerbench::reports
