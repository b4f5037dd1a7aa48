// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "gate/render/cell_labels.h"
#include "gate/render/row_text.h"
#include "gate/render/text_renderers.h"
#include "io/text.h"
#include "reports/export/workflow_command.h"

namespace mixerbench::gate {
namespace {

std::string Cells(std::initializer_list<std::string> texts) {
  std::string line = "|";
  for (const std::string& text : texts) line += " " + io::EscapeMarkdown(text) + " |";
  return line + "\n";
}

constexpr const char* kHeader =
    "| verdict | what | cell | base → new | effect | margin | p | would have seen | in words |\n"
    "|---|---|---|---|---|---|---|---|---|\n";

std::string LineOf(const Row& row, const CellLabels& labels) {
  const std::string seen = row.would_have_seen_text.empty() ? kNoText : row.would_have_seen_text;
  return Cells({VerdictWord(row.verdict), WhatText(row), labels.Of(row.cell).Text(),
                ValuesText(row), EffectText(row), MarginText(row),
                PText(row.p_adjusted ? row.p_adjusted : row.p_raw), seen, row.say});
}

std::string Head(const Comparison& comparison, ExitCode code) {
  const auto side = [](const char* which, const SideFacts& facts) {
    return fmt::format("- {}: {}; code {}{}; {}\n", which, io::EscapeMarkdown(facts.name),
                       facts.code.empty() ? "unknown" : io::EscapeMarkdown(facts.code),
                       facts.commit.empty() ? "" : ", commit " + io::EscapeMarkdown(facts.commit),
                       io::EscapeMarkdown(facts.device));
  };
  std::string text =
      fmt::format("## mixerbench compare: {}\n\n**{}** {}. Exit code {}.\n\n", WordOf(code),
                  OutcomeText(comparison, code), CountsText(comparison), static_cast<int>(code));
  text += side("base", comparison.base) + side("new", comparison.candidate);
  text += fmt::format("- preset {}; level {:.3g} one-sided, Holm over {} headlines\n\n",
                      io::EscapeMarkdown(comparison.settings.preset), comparison.settings.alpha,
                      comparison.num_headlines);
  return text;
}

}  // namespace

std::string RenderMarkdown(const Comparison& comparison, ExitCode code, std::size_t max_bytes) {
  const CellLabels labels(comparison);
  std::string text = Head(comparison, code);
  for (const auto& [task, shared] : labels.shared()) {
    text += "- all of " + io::EscapeMarkdown(task + ": " + shared) + "\n";
  }
  if (!labels.shared().empty()) text += "\n";
  for (const Note& note : comparison.notes) {
    const std::string about = note.cell.empty() ? "" : labels.Of(note.cell).Text() + ": ";
    text += "> " + io::EscapeMarkdown(about + note.text) + "\n";
  }
  if (!comparison.notes.empty()) text += "\n";
  const std::vector<const Row*> deciding = DecidingRows(comparison);
  std::size_t left_out = 0;
  const std::size_t reserve = 600;  // for heads of tables and the line that says what was left out
  const auto add = [&](const std::string& line) {
    const bool fits = text.size() + line.size() + reserve <= max_bytes;
    if (fits) {
      text += line;
    } else {
      ++left_out;
    }
  };
  if (!deciding.empty()) {
    text += std::string("### Every row that is not a pass\n\n") + kHeader;
    for (const Row* row : deciding) add(LineOf(*row, labels));
    text += "\n";
  }
  if (deciding.size() < comparison.rows.size()) {
    text +=
        std::string("<details><summary>Rows that pass or are only shown</summary>\n\n") + kHeader;
    for (const Row& row : comparison.rows) {
      if (row.verdict == Verdict::kPass || row.verdict == Verdict::kNotGated)
        add(LineOf(row, labels));
    }
    text += "\n</details>\n";
  }
  if (!labels.names().empty()) {
    text += "<details><summary>Full names</summary>\n\n| cell | name |\n|---|---|\n";
    for (const std::string& name : labels.names()) add(Cells({labels.Of(name).Text(), name}));
    text += "\n</details>\n";
  }
  if (left_out > 0) text += fmt::format("\n{} more rows are in the JSON.\n", left_out);
  return text;
}

std::string RenderAnnotations(const Comparison& comparison) {
  std::string text;
  std::size_t count = 0;
  for (const Row* row : DecidingRows(comparison)) {
    if (count++ == reports::kMaxAnnotations) break;
    const char* level = row->verdict == Verdict::kRegression || row->verdict == Verdict::kMissing ||
                                row->verdict == Verdict::kNotComparable
                            ? "error"
                            : "warning";
    text += reports::Annotation(level, VerdictWord(row->verdict) + ": " + row->cell,
                                WhatText(*row) + ", " + EffectText(*row) + ". " + row->say);
  }
  return text;
}

}  // namespace mixerbench::gate
