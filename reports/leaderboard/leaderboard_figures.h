// The figures of a leaderboard, without numbers in their titles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reports/leaderboard/leaderboard.h"
#include "reports/view/page.h"

namespace mixerbench::reports {

// Accuracy over measured bytes: a panel for each family of tasks, at the task size that most mixers
// find hardest, joined over widths.
Figure StateFigure(const Leaderboard& board);

// Steps to the threshold over tokens per second, a mark for each mixer that was timed. No panel
// where fewer than two were, or none reaches it.
Figure StepsFigure(const Leaderboard& board);

// Accuracy of every mixer in every setting.
HeatFigure TaskFigure(const Leaderboard& board);

}  // namespace mixerbench::reports
