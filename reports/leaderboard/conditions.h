// What makes a rank true: how the runs behind each setting were trained, chosen and scored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reports/leaderboard/leaderboard.h"
#include "reports/leaderboard/ranked_mixers.h"

namespace mixerbench::reports {

// What a group shares with those that it is ranked against.
std::string RankedKey(const SweepReport& report, const GroupSummary& group);

// Fills in RankedSetting::conditions from the runs of ranked mixers and those that chose for them.
void AddConditions(const std::vector<const LeaderboardInput*>& inputs, const RankedMixers& mixers,
                   Leaderboard& board);

// What all settings share, then a table of what differs between them.
std::vector<Block> ConditionBlocks(const Leaderboard& board);

}  // namespace mixerbench::reports
