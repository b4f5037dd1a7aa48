// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "gate/render/row_text.h"
#include "gate/render/text_renderers.h"
#include "io/text.h"

namespace mixerbench::gate {
namespace {

constexpr std::size_t kNumColumns = 6;
using Line = std::array<std::string, kNumColumns>;

// Characters, not bytes; what these tables print is one column wide each.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

Line LineOf(const Row& row) {
  std::string verdict = VerdictWord(row.verdict);
  if (row.verdict == Verdict::kRegression) verdict = "REGRESSION";
  if (row.margin && row.effect.kind != EffectKind::kNone) {
    verdict += " (margin " + MarginText(row) + ")";
  } else if (row.metric == "solve_rate" && !row.would_have_seen_text.empty()) {
    verdict += " (would have seen " + row.would_have_seen_text + ")";
  }
  std::string effect = EffectText(row);
  if (row.metric == "solve_rate" && row.p_raw) effect = "p " + PText(row.p_raw);
  Line line = {WhatText(row), row.cell, row.base, row.candidate, effect, verdict};
  for (std::string& text : line) {
    text = io::PlainLine(text);
    if (text.empty()) text = "-";
  }
  return line;
}

}  // namespace

std::string RenderTerminal(const Comparison& comparison, ExitCode code, bool with_passes) {
  std::vector<Line> lines = {{"metric", "cell", "base", "new", "effect [interval]", "verdict"}};
  std::vector<std::string> says = {""};
  std::int64_t hidden = 0;
  for (const Row& row : comparison.rows) {
    const bool is_quiet = row.verdict == Verdict::kPass || row.verdict == Verdict::kNotGated;
    if (is_quiet && !with_passes) {
      ++hidden;
      continue;
    }
    lines.push_back(LineOf(row));
    says.push_back(is_quiet ? "" : io::PlainLine(row.say));
  }
  std::array<std::size_t, kNumColumns> widths{};
  for (const Line& line : lines) {
    for (std::size_t c = 0; c < kNumColumns; ++c) widths[c] = std::max(widths[c], Width(line[c]));
  }
  std::string text;
  for (std::size_t i = 0; i < lines.size() && lines.size() > 1; ++i) {
    for (std::size_t c = 0; c < kNumColumns; ++c) {
      text += lines[i][c];
      if (c + 1 < kNumColumns) text += std::string(widths[c] - Width(lines[i][c]) + 2, ' ');
    }
    text += "\n";
    if (!says[i].empty()) text += "    " + says[i] + "\n";
  }
  if (hidden > 0) text += fmt::format("{} more rows pass or are only shown\n", hidden);
  for (const Note& note : comparison.notes) {
    text += "note: " + io::PlainLine(NoteText(note)) + "\n";
  }
  text += fmt::format("{}: {} {} (exit code {})\n", WordOf(code), OutcomeText(comparison, code),
                      CountsText(comparison), static_cast<int>(code));
  return text;
}

}  // namespace mixerbench::gate
