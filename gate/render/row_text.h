// The numbers of a row as people read them: one text for the terminal, Markdown, JUnit and the
// page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gate/verdict/comparison.h"

namespace mixerbench::gate {

inline constexpr const char* kNoText = "–";

std::string VerdictWord(Verdict verdict);        // "not comparable"
std::string EffectText(const Row& row);          // "×1.42 (1.30–1.55)", "+5.2 % (+4.8 to +5.9)"
std::string EffectValueText(const Row& row);     // "×1.42"
std::string EffectIntervalText(const Row& row);  // "1.30–1.55"; "" without one
std::string MarginText(const Row& row);          // "×1.25", "2 points", "3 %"
std::string ValuesText(const Row& row);          // "7400 → 10400"
std::string PText(const std::optional<double>& p);  // "0.043", "<0.001"
std::string MetricText(const Row& row);             // "steps to the threshold"
std::string WhatText(const Row& row);               // metric and shape

// "3 regressions, 1 inconclusive, 32 pass".
std::string CountsText(const Comparison& comparison);

// What the exit code means here, in one sentence.
std::string OutcomeText(const Comparison& comparison, ExitCode code);

// Rows that are neither a pass nor merely shown, in their order.
std::vector<const Row*> DecidingRows(const Comparison& comparison);

// Task and mixer of a cell: "mqar/gla/lr=0.01" -> "mqar", "gla lr=0.01".
struct CellText {
  std::string task, mixer;
};
CellText SplitCell(const std::string& cell);

}  // namespace mixerbench::gate
