// Published numbers beside ours: for every cell that corresponds, source, setting, difference and
// which settings differ.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/published/published.h"
#include "reports/view/page.h"
#include "reports/view/study.h"

namespace mixerbench::reports {

// Whether a published result is of this setting: the same mixer, positions and task, and every size
// that names the setting in the paper (length, pairs, width) equal to ours.
bool Corresponds(const PublishedResult& result, const Value& config, const Object& axes);

// "n_layers 2, theirs 4": settings that the paper states and ours differ in; empty when none does.
// `is_best_rate`: ours was chosen among learning rates.
std::string Differences(const PublishedResult& result, const Value& config, const Object& axes,
                        bool is_best_rate);

// Nothing when no published result corresponds.
std::optional<Table> PublishedTable(const Study& study, const MixerList& mixers);

}  // namespace mixerbench::reports
