// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gate/render/row_text.h"
#include "gate/render/text_renderers.h"
#include "gate/verdict/failure_rows.h"
#include "reports/export/junit_xml.h"

namespace mixerbench::gate {
namespace {

using reports::CaseOutcome;

CaseOutcome OutcomeOf(const Row& row, const Comparison& comparison, const Tolerance& tolerance) {
  const GateSettings& settings = comparison.settings;
  switch (row.verdict) {
    case Verdict::kRegression:
      return row.metric == kStateMetric ? CaseOutcome::kError : CaseOutcome::kFailure;
    case Verdict::kSuspicious:
      return settings.suspicious_fails ? CaseOutcome::kFailure : CaseOutcome::kPassed;
    case Verdict::kInconclusive:
      return settings.inconclusive_fails && !tolerance.inconclusive ? CaseOutcome::kFailure
                                                                    : CaseOutcome::kSkipped;
    case Verdict::kMissing:
      return tolerance.missing ? CaseOutcome::kSkipped : CaseOutcome::kError;
    case Verdict::kNotComparable:
      return CaseOutcome::kError;
    case Verdict::kNotGated:
      return CaseOutcome::kSkipped;
    default:
      return CaseOutcome::kPassed;
  }
}

std::string OneLine(const Row& row) {
  std::string text = VerdictWord(row.verdict) + ": " + EffectText(row);
  if (row.margin && row.effect.kind != EffectKind::kNone) text += ", margin " + MarginText(row);
  return text + ". " + row.say;
}

}  // namespace

std::string RenderJUnit(const Comparison& comparison, const Tolerance& tolerance) {
  std::vector<reports::JUnitCase> cases;
  std::map<std::string, int> uses;  // of a row's whole name: readers keep one case of each
  for (const Row& row : comparison.rows) {
    const CellText cell = SplitCell(row.cell);
    const std::string what = WhatText(row);
    const int use = ++uses[row.cell + ": " + what];
    reports::JUnitCase one{
        .suite = cell.task.empty() ? "compare" : cell.task,
        .name = cell.mixer + ": " + what + (use > 1 ? " (" + std::to_string(use) + ")" : ""),
        .outcome = OutcomeOf(row, comparison, tolerance),
        .message = OneLine(row),
        .type = std::string(NameOf(row.verdict)),
        .details = ValuesText(row)};
    if (!row.experiment_id.empty()) one.properties = {{"experiment_id", row.experiment_id}};
    cases.push_back(std::move(one));
  }
  // What fails the comparison is red here, too, where no row alone explains it: nothing was judged.
  const ExitCode code = CodeOf(comparison, tolerance);
  const bool is_red = std::any_of(cases.begin(), cases.end(), [](const reports::JUnitCase& one) {
    return one.outcome == CaseOutcome::kFailure || one.outcome == CaseOutcome::kError;
  });
  if (code != ExitCode::kOk && !is_red) {
    cases.push_back({.suite = "compare",
                     .name = "outcome",
                     .outcome = CaseOutcome::kFailure,
                     .message = OutcomeText(comparison, code),
                     .type = std::string(WordOf(code))});
  }
  return reports::RenderJUnitXml("mixerbench.compare", comparison.candidate.started, cases);
}

}  // namespace mixerbench::gate
