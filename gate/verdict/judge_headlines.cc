// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "gate/verdict/headline.h"

namespace mixerbench::gate {
namespace {

Verdict VerdictOf(const Evidence& evidence, double p_adjusted, const Level& level) {
  if (p_adjusted <= level.one && evidence.is_beyond_margin) return Verdict::kRegression;
  if (evidence.is_suspicious) return Verdict::kSuspicious;
  if (evidence.improves) return Verdict::kImproved;
  return evidence.passes ? Verdict::kPass : Verdict::kInconclusive;
}

bool IsOpen(const Headline& headline) {
  return headline.row.looks.empty() || headline.row.looks.back().verdict == Verdict::kInconclusive;
}

// One look at the first `seeds` pairs of every open headline that has them. The others keep their
// place in the family, with a p value of 1: what was decided before makes no later test easier.
// Returns what was tested, by headline.
std::vector<Tested> LookAt(std::int64_t seeds, const Level& level, Headlines& headlines) {
  std::vector<Evidence> evidence(headlines.size());
  std::vector<Tested> family(headlines.size());
  std::vector<bool> is_looked_at(headlines.size());
  for (std::size_t i = 0; i < headlines.size(); ++i) {
    is_looked_at[i] = IsOpen(*headlines[i]) && headlines[i]->num_pairs >= seeds;
    if (!is_looked_at[i]) continue;
    evidence[i] = headlines[i]->Look(seeds, level);
    family[i] = evidence[i].loss;
  }
  const std::vector<double> adjusted = HolmAdjusted(family);
  for (std::size_t i = 0; i < headlines.size(); ++i) {
    if (!is_looked_at[i]) continue;
    headlines[i]->row.looks.push_back(
        {seeds, level.one, family[i].p, adjusted[i], VerdictOf(evidence[i], adjusted[i], level)});
  }
  return family;
}

void Finish(const Level& level, Headline& headline) {
  Row& row = headline.row;
  const Look& last = row.looks.back();
  row.verdict = last.verdict;
  row.p_raw = last.p_raw;
  row.p_adjusted = last.p_adjusted;
  headline.Describe(last.seeds, level, row);
}

}  // namespace

void JudgeHeadlines(const GateSettings& settings, Headlines& headlines) {
  if (headlines.empty()) return;
  Level level;
  level.one = settings.alpha / static_cast<double>(settings.looks.size());
  level.shared = level.one / static_cast<double>(headlines.size());
  std::map<std::int64_t, std::vector<Tested>> families;  // by look
  for (const std::int64_t seeds : settings.looks) {
    level.is_last_look = seeds == settings.looks.back();
    families[seeds] = LookAt(seeds, level, headlines);
  }
  for (std::size_t i = 0; i < headlines.size(); ++i) {
    const std::int64_t last = headlines[i]->row.looks.back().seeds;
    level.is_last_look = last == settings.looks.back();
    level.others = families[last];
    level.others.erase(level.others.begin() + static_cast<std::ptrdiff_t>(i));
    Finish(level, *headlines[i]);
  }
}

}  // namespace mixerbench::gate
