// The figures of a report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "reports/view/mixer_list.h"
#include "reports/view/page.h"
#include "reports/view/study.h"

namespace mixerbench::reports {

// Accuracy over size, at every rate, over depth and length, speed of learning, learning curves,
// matched state, slices: those for which something varies.
std::vector<Block> TrainingFigures(const Study& study, const MixerList& mixers);

// Throughput and memory over length, log axes.
std::vector<Block> SpeedFigures(const SweepReport& report, const MixerList& mixers);

// Logarithmic ticks inside [low, high]: 1, 2, 5 times powers of ten, or powers of four for bytes.
std::vector<Tick> LogTicks(double low, double high);
std::vector<Tick> ByteTicks(double low, double high);

// From 5 to 99.99 % in log-odds, 100 as its own place; or 0 to 100 %.
Axis AccuracyAxis(bool is_odds, double lowest);

// An axis of names at 0, 1, 2, ...
Axis NameAxis(const std::vector<std::string>& names, const std::string& label);

}  // namespace mixerbench::reports
