// SPDX-License-Identifier: Apache-2.0
#include "gate/render/row_text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "reports/summary/sweep_report.h"

namespace mixerbench::gate {
namespace {

// "+1.3", "−0.4"; a true minus sign.
std::string Signed(double value, int decimals = 1) {
  const std::string digits = fmt::format("{:.{}f}", std::abs(value), decimals);
  const bool is_zero = digits.find_first_not_of("0.") == std::string::npos;
  return (is_zero ? "" : value < 0 ? "−" : "+") + digits;
}

std::string Value(EffectKind kind, double value) {
  if (kind == EffectKind::kRatio) return fmt::format("{:.2f}", value);
  return Signed(100 * value);
}

std::int64_t CountOf(const std::map<Verdict, std::int64_t>& counts, Verdict verdict) {
  const auto found = counts.find(verdict);
  return found == counts.end() ? 0 : found->second;
}

std::string RowsAre(std::int64_t count, const char* what) {
  return fmt::format("{} {} {}", count, count == 1 ? "row is" : "rows are", what);
}

// A pass says how far it looked: that nothing was lost only where every row was judged, else what
// was let pass.
std::string PassText(const Comparison& comparison, const std::map<Verdict, std::int64_t>& counts) {
  if (comparison.rows.empty()) return "No result on either side, which passes here.";
  const std::int64_t missing = CountOf(counts, Verdict::kMissing);
  const std::int64_t inconclusive = CountOf(counts, Verdict::kInconclusive);
  const bool is_blind = CountJudged(comparison) == 0;
  std::string text;
  if (is_blind) text = "Nothing was judged, which passes here.";
  if (inconclusive > 0) text = RowsAre(inconclusive, "inconclusive, which passes here.");
  if (const std::int64_t suspicious = CountOf(counts, Verdict::kSuspicious); suspicious > 0) {
    text += (text.empty() ? "" : " ") + RowsAre(suspicious, "suspicious, which passes here.");
  }
  if (missing > 0) {
    text += (text.empty() ? "" : " ") + RowsAre(missing, "missing, which is allowed here.");
    if (!is_blind && inconclusive == 0) text += " The rows that were judged show no loss.";
  }
  return text.empty() ? "Nothing was lost that these margins and seeds can show." : text;
}

}  // namespace

std::string VerdictWord(Verdict verdict) {
  std::string word(NameOf(verdict));
  std::replace(word.begin(), word.end(), '_', ' ');
  return word;
}

std::string EffectValueText(const Row& row) {
  const Effect& effect = row.effect;
  switch (effect.kind) {
    case EffectKind::kRatio:
      return "×" + Value(effect.kind, effect.value);
    case EffectKind::kPoints:
      return Value(effect.kind, effect.value) + " points";
    case EffectKind::kChange:
      return Value(effect.kind, effect.value) + " %";
    default:
      return kNoText;
  }
}

std::string EffectIntervalText(const Row& row) {
  const Effect& effect = row.effect;
  if (!effect.low || !effect.high) return "";
  const char* dash = effect.kind == EffectKind::kRatio ? "–" : " to ";
  return Value(effect.kind, *effect.low) + dash + Value(effect.kind, *effect.high);
}

std::string EffectText(const Row& row) {
  const std::string interval = EffectIntervalText(row);
  return EffectValueText(row) + (interval.empty() ? "" : " (" + interval + ")");
}

std::string MarginText(const Row& row) {
  if (!row.margin) return kNoText;
  switch (row.effect.kind) {
    case EffectKind::kRatio:
      return fmt::format("×{:.4g}", *row.margin);
    case EffectKind::kPoints:
      return fmt::format("{:.3g} points", 100 * *row.margin);
    case EffectKind::kChange:
      return fmt::format("{:.3g} %", 100 * *row.margin);
    default:
      return fmt::format("{:.3g}", *row.margin);
  }
}

std::string ValuesText(const Row& row) {
  if (row.base.empty() && row.candidate.empty()) return kNoText;
  if (row.base.empty()) return row.candidate;
  return row.base + " → " + (row.candidate.empty() ? kNoText : row.candidate);
}

std::string PText(const std::optional<double>& p) {
  if (!p) return kNoText;
  if (*p < 0.001) return "<0.001";
  return *p < 0.1 ? fmt::format("{:.3f}", *p) : fmt::format("{:.2f}", *p);
}

std::string MetricText(const Row& row) {
  if (row.metric == "steps_to_threshold") return "steps to the threshold";
  std::string text = row.metric;
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string WhatText(const Row& row) {
  return MetricText(row) + (row.where.empty() ? "" : ", " + row.where);
}

std::string CountsText(const Comparison& comparison) {
  std::string text;
  for (const auto& [verdict, count] : CountVerdicts(comparison)) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", count, VerdictWord(verdict));
  }
  return text.empty() ? "no rows" : text;
}

std::string OutcomeText(const Comparison& comparison, ExitCode code) {
  const auto counts = CountVerdicts(comparison);
  const auto count = [&](Verdict verdict) { return CountOf(counts, verdict); };
  switch (code) {
    case ExitCode::kOk:
      return PassText(comparison, counts);
    case ExitCode::kNo:
      return RowsAre(count(Verdict::kRegression), "a regression") +
             (comparison.settings.suspicious_fails && count(Verdict::kSuspicious) > 0
                  ? ", " + RowsAre(count(Verdict::kSuspicious), "suspicious and not acknowledged.")
                  : ".");
    case ExitCode::kCellsFailed:
      return fmt::format("{} cells of new failed.", comparison.num_failed);
    case ExitCode::kInconclusive: {
      std::string text = count(Verdict::kInconclusive) > 0
                             ? RowsAre(count(Verdict::kInconclusive), "inconclusive")
                             : std::string("Nothing was judged");
      if (comparison.seeds_wanted) {
        text += fmt::format("; {} paired seeds are the next look", *comparison.seeds_wanted);
      }
      return text + ".";
    }
    case ExitCode::kMissing:
      return RowsAre(count(Verdict::kMissing), "missing, ") +
             RowsAre(count(Verdict::kNotComparable), "not comparable.");
    default:
      return "No result on either side.";
  }
}

std::vector<const Row*> DecidingRows(const Comparison& comparison) {
  std::vector<const Row*> rows;
  for (const Row& row : comparison.rows) {
    if (row.verdict != Verdict::kPass && row.verdict != Verdict::kNotGated) rows.push_back(&row);
  }
  return rows;
}

CellText SplitCell(const std::string& cell) {
  const reports::CellName name = reports::SplitCellName(cell);
  if (name.mixer.empty()) return {"", cell};
  return {name.task, name.mixer + (name.variant.empty() ? "" : " " + name.variant)};
}

}  // namespace mixerbench::gate
