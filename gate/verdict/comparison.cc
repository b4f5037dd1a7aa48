// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/comparison.h"

#include <algorithm>

namespace mixerbench::gate {

std::string NoteText(const Note& note) {
  return note.cell.empty() ? note.text : note.cell + ": " + note.text;
}

std::map<Verdict, std::int64_t> CountVerdicts(const Comparison& comparison) {
  std::map<Verdict, std::int64_t> counts;
  for (const Row& row : comparison.rows) ++counts[row.verdict];
  return counts;
}

std::int64_t CountJudged(const Comparison& comparison) {
  return std::count_if(comparison.rows.begin(), comparison.rows.end(), [](const Row& row) {
    return row.gate != Gate::kData && row.gate != Gate::kPairing &&
           row.verdict != Verdict::kNotGated && row.verdict != Verdict::kMissing;
  });
}

ExitCode CodeOf(const Comparison& comparison, const Tolerance& tolerance) {
  const std::map<Verdict, std::int64_t> counts = CountVerdicts(comparison);
  const auto any = [&](Verdict verdict) { return counts.contains(verdict); };
  if (comparison.rows.empty()) {
    return tolerance.empty ? ExitCode::kOk : ExitCode::kNothingSelected;
  }
  if (any(Verdict::kNotComparable) || (any(Verdict::kMissing) && !tolerance.missing)) {
    return ExitCode::kMissing;
  }
  if (any(Verdict::kRegression)) return ExitCode::kNo;
  if (any(Verdict::kSuspicious) && comparison.settings.suspicious_fails) return ExitCode::kNo;
  if (comparison.num_failed > 0 && !tolerance.failed_cells) return ExitCode::kCellsFailed;
  // Data alone judges nothing: a gate that looked at no result is no pass.
  const bool is_open = any(Verdict::kInconclusive) || CountJudged(comparison) == 0;
  if (is_open && comparison.settings.inconclusive_fails && !tolerance.inconclusive) {
    return ExitCode::kInconclusive;
  }
  return ExitCode::kOk;
}

std::string_view WordOf(ExitCode code) {
  switch (code) {
    case ExitCode::kOk:
      return "pass";
    case ExitCode::kNo:
      return "fail";
    case ExitCode::kCellsFailed:
      return "failed cells";
    case ExitCode::kInconclusive:
      return "inconclusive";
    case ExitCode::kMissing:
      return "not comparable";
    case ExitCode::kNothingSelected:
      return "nothing to compare";
    default:
      return "error";
  }
}

}  // namespace mixerbench::gate
