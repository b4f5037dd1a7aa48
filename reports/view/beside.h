// Published numbers beside ours: for every cell that corresponds, source, setting, difference and
// which settings differ.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "reports/view/mixer_list.h"
#include "reports/view/page.h"
#include "reports/view/study.h"

namespace mixerbench::reports {

// A long table is folded under a line that counts `what`: "published numbers".
void FoldIfLong(Table& table, std::string_view what);

// Makes remarks of what the sources of a table, its last column, have for notes: each once.
void RemarkOnSources(Table& table);

// Accuracies; nothing when no published result corresponds.
std::optional<Table> PublishedTable(const Study& study, const MixerList& mixers);

// How many of the published numbers of these tables are of other settings; nothing when none is.
std::optional<Sentence> PublishedCare(const std::vector<std::optional<Table>>& tables);

// Times, rates of work, memory and state: beside every timing of a mixer that a paper gives at the
// same length, and beside the state of every mixer that it gives. Models and machines hardly ever
// agree, so no difference is judged. Nothing when no published result corresponds.
std::optional<Table> PublishedCostTable(const SweepReport& report, const MixerList& mixers);

}  // namespace mixerbench::reports
