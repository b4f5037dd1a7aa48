// SPDX-License-Identifier: Apache-2.0
#include "reports/view/doubts.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <string>

#include "reports/view/cell_parts.h"
#include "reports/view/numbers.h"
#include "reports/view/sentences.h"

namespace mixerbench::reports {
namespace {

// Half widths of the 95 % interval over items that a value has to be away from what is possible:
// more than five standard errors, since a report has thousands of rows.
constexpr double kHalfWidths = 3;
constexpr double kNothingLeft = 0.01;    // nats of train loss
constexpr double kWideApart = 0.5;       // accuracy, between seeds of one setting
constexpr std::int64_t kFewItems = 100;  // scored positions; fewer are equal by chance too often

// A run of a study in words.
struct Run {
  const Study& study;
  const MixerList& mixers;
  int mixer;
  std::size_t setting;

  std::string Name() const {
    const std::string& at = study.settings[setting].text;
    return LabelOf(mixers, mixer) + (at.empty() ? "" : " at " + at);
  }
};

bool IsScored(const AccuracyRow& row) {
  return row.slice.empty() && row.state == CellState::kCompleted && row.accuracy && row.ci_items;
}

bool IsFarAbove(const AccuracyRow& row, double bound) {
  return *row.accuracy - kHalfWidths * (*row.accuracy - row.ci_items->low) > bound;
}

bool IsFarBelow(const AccuracyRow& row, double bound) {
  return *row.accuracy + kHalfWidths * (row.ci_items->high - *row.accuracy) < bound;
}

// What is named under one lead.
struct Named {
  std::vector<std::string> above, below, memorised, apart;
};

std::string Where(const Run& run, const CellResult& cell, const AccuracyRow& row) {
  const std::string segment = run.study.segments.size() > 1 ? ", " + SegmentText(row.axes) : "";
  return fmt::format("{}{}, seed {}", run.Name(), segment, cell.seed);
}

void CheckRows(const Run& run, const CellResult& cell, Named& named) {
  for (const AccuracyRow& row : cell.accuracy) {
    if (!IsScored(row)) continue;
    const double ceiling = row.ceiling.value_or(1);
    if (IsFarAbove(row, ceiling) || *row.accuracy > 1) {
      named.above.push_back(fmt::format("{} ({} % of {} %)", Where(run, cell, row),
                                        Percent(row.accuracy), Percent(ceiling)));
    }
    // Longer than trained a model may well be wrong more often than a coin.
    if (!row.extrapolated && IsFarBelow(row, row.chance)) {
      named.below.push_back(fmt::format("{} ({} %, chance {} %)", Where(run, cell, row),
                                        Percent(row.accuracy), GuessPercent(row.chance)));
    }
  }
}

void CheckLoss(const Run& run, const CellResult& cell, Named& named) {
  if (cell.learning_curve.empty() || cell.learning_curve.back().train_loss > kNothingLeft) return;
  bool any = false;
  for (const AccuracyRow& row : cell.accuracy) {
    if (!IsScored(row) || row.extrapolated) continue;
    any = true;
    if (row.ci_items->low > row.chance) return;
  }
  if (!any) return;
  named.memorised.push_back(fmt::format("{}, seed {} (train loss {:.2g})", run.Name(), cell.seed,
                                        cell.learning_curve.back().train_loss));
}

void CheckSeeds(const Run& run, const GroupSummary& group, Named& named) {
  if (!group.solve_rate) return;
  const SolveRate& rate = *group.solve_rate;
  if (rate.num_solved != 0 && rate.num_solved != rate.num_seeds) return;
  for (const AccuracyOverSeeds& row : group.accuracy) {
    if (!row.slice.empty() || row.extrapolated) continue;
    std::vector<double> values;
    for (std::size_t i = 0; i < row.per_seed.size(); ++i) {
      if (row.per_seed[i] && !row.imputed[i]) values.push_back(*row.per_seed[i]);
    }
    if (values.size() < 2) continue;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    if (*high - *low < kWideApart) continue;
    named.apart.push_back(fmt::format("{} ({} of {} solved, {} to {} %)", run.Name(),
                                      rate.num_solved, rate.num_seeds, Percent(*low, 1),
                                      Percent(*high, 1)));
    return;
  }
}

// All that a mixer answered and lost, in all settings and by all seeds: equal for two mixers only
// where one ran for the other. Empty where nothing tells runs apart: all right, or hardly scored.
std::string AnswersOf(const Study& study, int mixer) {
  std::string answers;
  bool tells_apart = false;
  for (std::size_t s = 0; s < study.settings.size(); ++s) {
    const StudyCell* cell = study.At(mixer, s);
    for (const GroupSummary* group : cell ? cell->all : std::vector<const GroupSummary*>()) {
      for (const CellResult& run : CellsOf(*study.report, *group)) {
        if (run.learning_curve.empty() || run.state != CellState::kCompleted) return "";
        answers += fmt::format("{} {} {} ", s, run.seed, run.learning_curve.back().train_loss);
        for (const AccuracyRow& row : run.accuracy) {
          if (!IsScored(row)) continue;
          answers += fmt::format("{}/{} ", row.num_correct, row.num_scored);
          tells_apart = tells_apart || (row.num_scored >= kFewItems && row.num_correct > 0 &&
                                        row.num_correct < row.num_scored);
        }
      }
    }
  }
  return tells_apart ? answers : "";
}

void CheckMixers(const Study& study, const MixerList& mixers, std::vector<Sentence>& out) {
  std::map<std::string, std::vector<std::string>> by_answers;
  for (const int mixer : study.mixers) {
    if (const std::string answers = AnswersOf(study, mixer); !answers.empty()) {
      by_answers[answers].push_back(LabelOf(mixers, mixer));
    }
  }
  for (const auto& [answers, labels] : by_answers) {
    if (labels.size() < 2) continue;
    const std::string who =
        labels.size() == study.mixers.size() ? "all mixers" : FirstOf(labels, ", ");
    out.push_back({"The same answers, " + study.title + ":",
                   who + " have the same train loss and as many right answers in every setting, "
                         "segment and seed."});
  }
}

}  // namespace

std::vector<Sentence> DoubtsOf(const std::vector<Study>& studies, const MixerList& mixers) {
  std::vector<Sentence> out;
  for (const Study& study : studies) {
    Named named;
    for (const auto& [place, cell] : study.cells) {
      const Run run{study, mixers, place.first, place.second};
      for (const GroupSummary* group : cell.all) {
        for (const CellResult& result : CellsOf(*study.report, *group)) {
          if (result.state != CellState::kCompleted) continue;
          CheckRows(run, result, named);
          CheckLoss(run, result, named);
        }
      }
      if (cell.shown != nullptr) CheckSeeds(run, *cell.shown, named);
    }
    const auto say = [&](const char* lead, const std::vector<std::string>& names) {
      if (!names.empty())
        out.push_back({fmt::format("{}, {}:", lead, study.title), FirstOf(names, "; ") + "."});
    };
    say("More right than can be known", named.above);
    say("Fewer right than by chance", named.below);
    say("No train loss left and a test at chance", named.memorised);
    say("Seeds of one verdict far apart", named.apart);
    CheckMixers(study, mixers, out);
  }
  return out;
}

}  // namespace mixerbench::reports
