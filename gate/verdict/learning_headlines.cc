// Solve rate, steps to the threshold and accuracy as headlines.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "gate/statistics/exact_tests.h"
#include "gate/statistics/paired_mean.h"
#include "gate/verdict/headline.h"
#include "gate/verdict/training_scores.h"
#include "reports/statistics/statistics.h"
#include "reports/summary/sweep_report.h"

namespace mixerbench::gate {
namespace {

constexpr double kShownLevel = 0.95;

template <typename T>
std::span<const T> First(const std::vector<T>& values, std::int64_t count) {
  return std::span(values).first(std::min(values.size(), static_cast<std::size_t>(count)));
}

// --- solve rate
// -----------------------------------------------------------------------------------

class SolveRate : public Headline {
 public:
  explicit SolveRate(std::vector<TrainingScore> scores) : scores_(std::move(scores)) {}

  Evidence Look(std::int64_t count, const Level& level) const override {
    const auto [base, candidate] = Counts(count);
    Evidence evidence;
    evidence.loss = {FisherLoss(base, candidate), FisherAttainable(base, candidate)};
    evidence.is_beyond_margin = true;
    const std::int64_t fewer = base.solved - candidate.solved;
    const auto is_visible = [&](double at) {
      return VisibleSolved(base, candidate.seeds, at).has_value();
    };
    // As many pass where the loss of all would have shown. One fewer is luck once all seeds are
    // there; two fewer are a warning.
    evidence.passes = (fewer <= 0 && is_visible(level.one)) ||
                      (fewer == 1 && level.is_last_look && is_visible(level.shared));
    evidence.improves = FisherLoss(candidate, base) <= level.one;
    return evidence;
  }

  void Describe(std::int64_t count, const Level& level, Row& out) const override {
    const auto [base, candidate] = Counts(count);
    out.base = fmt::format("{}/{}", base.solved, base.seeds);
    out.candidate = fmt::format("{}/{}", candidate.solved, candidate.seeds);
    out.base_value = Share(base);
    out.candidate_value = Share(candidate);
    out.effect = {EffectKind::kPoints, Share(candidate) - Share(base), {}, {}, kShownLevel};
    out.test = "fisher";
    out.p_raw = FisherLoss(base, candidate);
    const auto visible = VisibleSolved(base, candidate.seeds, level.one, level.others);
    out.would_have_seen_text =
        visible ? fmt::format("{}/{} or less", *visible, candidate.seeds) : "no loss at all";
    if (visible) out.would_have_seen = Share({*visible, candidate.seeds}) - Share(base);
    const std::int64_t fewer = base.solved - candidate.solved;
    if (fewer > 0) {
      out.say = fmt::format("{} fewer of {} seeds solve it.", fewer, candidate.seeds);
    } else {
      out.say =
          fewer == 0 ? "As many seeds solve it as before." : "More seeds solve it than before.";
    }
  }

 private:
  static double Share(SolvedCount count) {
    return static_cast<double>(count.solved) / static_cast<double>(count.seeds);
  }

  std::pair<SolvedCount, SolvedCount> Counts(std::int64_t count) const {
    SolvedCount base, candidate;
    for (const TrainingScore& score : First(scores_, count)) {
      base.solved += score.base.steps.has_value();
      candidate.solved += score.candidate.steps.has_value();
      ++base.seeds;
      ++candidate.seeds;
    }
    return {base, candidate};
  }

  std::vector<TrainingScore> scores_;
};

// --- steps to the threshold
// -----------------------------------------------------------------------

// Losses are log ratios of steps; an unsolved seed counts at the budget, which is less than the
// truth, so where the candidate has one only ranks can say that nothing was lost. Steps are known
// to the evaluation before, so losses that are all alike are not exact.
class Steps : public Headline {
 public:
  Steps(std::vector<TrainingScore> scores, double margin, double suspicious_ratio,
        double suspicious_p)
      : scores_(std::move(scores)),
        margin_(std::log(margin)),
        suspicious_(std::log(suspicious_ratio)),
        suspicious_p_(suspicious_p) {}

  Evidence Look(std::int64_t count, const Level& level) const override {
    const Losses losses = LossesOf(count);
    if (!losses.AreEnough()) return {};
    const PairedMean mean(losses.values, losses.least_deviation);
    Evidence evidence;
    evidence.loss.p = mean.PAbove(0);
    evidence.is_beyond_margin = mean.mean() > margin_;
    evidence.passes = losses.num_censored > 0 ? SignedRank(losses.below_margin) <= level.one
                                              : mean.UpperBound(level.one) < margin_;
    evidence.improves = mean.PBelow(0) <= level.one && mean.mean() < -margin_;
    evidence.is_suspicious = mean.PBelow(0) < suspicious_p_ && mean.mean() < suspicious_;
    return evidence;
  }

  void Describe(std::int64_t count, const Level& level, Row& out) const override {
    std::vector<double> base_steps, candidate_steps;
    for (const TrainingScore& score : First(scores_, count)) {
      base_steps.push_back(score.base.StepsOrBudget());
      candidate_steps.push_back(score.candidate.StepsOrBudget());
    }
    out.base_value = reports::Median(base_steps);
    out.candidate_value = reports::Median(candidate_steps);
    out.base = fmt::format("{:.0f}", *out.base_value);
    out.candidate = fmt::format("{:.0f}", *out.candidate_value);
    out.cliffs_delta = CliffsDelta(base_steps, candidate_steps);
    out.margin = std::exp(margin_);
    const Losses losses = LossesOf(count);
    out.test = losses.num_censored > 0 ? "student, signed_rank" : "student";
    if (!losses.AreEnough()) {
      out.say = fmt::format("{} pairs have a seed that reaches the threshold; {} are the fewest.",
                            losses.values.size(), kFewestSeeds);
      return;
    }
    const PairedMean mean(losses.values, losses.least_deviation);
    const reports::Interval interval = mean.Interval(kShownLevel);
    out.effect = {EffectKind::kRatio, std::exp(mean.mean()), std::exp(interval.low),
                  std::exp(interval.high), kShownLevel};
    out.p_raw = mean.PAbove(0);
    out.p_sign_flip = SignFlip(losses.values);
    out.would_have_seen = std::exp(mean.Visible(margin_, level.shared));
    out.would_have_seen_text = fmt::format("×{:.2f}", *out.would_have_seen);
    const double percent = 100 * (std::exp(mean.mean()) - 1);
    out.say = fmt::format("Needs {}{:.0f} % {} steps.", losses.num_censored > 0 ? "at least " : "",
                          std::abs(percent), percent >= 0 ? "more" : "fewer");
    if (losses.num_censored > 0) {
      const bool is_planned = scores_.front().candidate.is_budget_planned;
      out.say += fmt::format(" {} of {} seeds of new never get there and count at the {}",
                             losses.num_censored, count,
                             is_planned ? "budget."
                                        : "most steps that any seed did: results before schema "
                                          "1.11 do not say how many were planned.");
    }
  }

 private:
  struct Losses {
    std::vector<double> values;
    std::vector<PairedLoss> below_margin;  // margin - loss: above 0 where nothing was lost
    std::int64_t num_censored = 0;         // the candidate alone never got there
    double least_deviation = 0;            // of `values`, for what lies between two evaluations

    bool AreEnough() const { return static_cast<std::int64_t>(values.size()) >= kFewestSeeds; }
  };

  // Pairs in which neither side gets there say nothing of steps.
  Losses LossesOf(std::int64_t count) const {
    Losses losses;
    double variance = 0;  // a value that is known to a width w has w^2 / 12
    for (const TrainingScore& score : First(scores_, count)) {
      const bool base_solved = score.base.steps.has_value();
      const bool candidate_solved = score.candidate.steps.has_value();
      if (!base_solved && !candidate_solved) continue;
      const double loss = std::log(score.candidate.StepsOrBudget() / score.base.StepsOrBudget());
      losses.values.push_back(loss);
      losses.num_censored += !candidate_solved;
      for (const SideScore* side : {&score.base, &score.candidate}) {
        variance += side->steps_width * side->steps_width / 12;
      }
      if (base_solved && candidate_solved) {
        losses.below_margin.push_back({margin_ - loss, false});
      } else {
        losses.below_margin.push_back({candidate_solved ? 1.0 : -1.0, true});
      }
    }
    if (!losses.values.empty()) {
      losses.least_deviation = std::sqrt(variance / static_cast<double>(losses.values.size()));
    }
    return losses;
  }

  std::vector<TrainingScore> scores_;
  double margin_, suspicious_, suspicious_p_;
};

// --- accuracy
// -------------------------------------------------------------------------------------

// Of all seeds, or of those that solve it on both sides.
class Accuracy : public Headline {
 public:
  Accuracy(std::vector<TrainingScore> scores, double margin, bool when_solved)
      : scores_(std::move(scores)), margin_(margin), when_solved_(when_solved) {}

  Evidence Look(std::int64_t count, const Level& level) const override {
    const std::vector<double> losses = Losses(count);
    if (static_cast<std::int64_t>(losses.size()) < kFewestSeeds) return {};
    const PairedMean mean(losses);
    Evidence evidence;
    evidence.loss.p = mean.PAbove(0);
    evidence.is_beyond_margin = mean.mean() > margin_;
    evidence.passes = mean.UpperBound(level.one) < margin_;
    evidence.improves = mean.PBelow(0) <= level.one && mean.mean() < -margin_;
    return evidence;
  }

  void Describe(std::int64_t count, const Level& level, Row& out) const override {
    std::vector<double> base, candidate;
    for (const TrainingScore& score : First(scores_, count)) {
      if (!Counts(score)) continue;
      base.push_back(score.base.accuracy);
      candidate.push_back(score.candidate.accuracy);
    }
    if (base.empty()) {
      out.say = "No seed solves it on both sides.";
      return;
    }
    out.base_value = reports::Mean(base);
    out.candidate_value = reports::Mean(candidate);
    out.base = fmt::format("{:.1f} %", 100 * *out.base_value);
    out.candidate = fmt::format("{:.1f} %", 100 * *out.candidate_value);
    out.cliffs_delta = CliffsDelta(base, candidate);
    out.test = "student";
    out.margin = margin_;
    const double difference = *out.candidate_value - *out.base_value;
    out.effect = {EffectKind::kPoints, difference, {}, {}, kShownLevel};
    out.say = fmt::format(
        "{:.1f} points {}{}.", std::abs(100 * difference), difference < 0 ? "lower" : "higher",
        when_solved_ ? fmt::format(" in {} pairs that solve it", base.size()) : "");
    if (base.size() < 2) return;
    const std::vector<double> losses = Losses(count);
    const PairedMean mean(losses);
    const reports::Interval interval = mean.Interval(kShownLevel);
    out.effect.low = -interval.high;
    out.effect.high = -interval.low;
    out.p_raw = mean.PAbove(0);
    out.p_sign_flip = SignFlip(losses);
    out.would_have_seen = -mean.Visible(margin_, level.shared);
    out.would_have_seen_text = fmt::format("−{:.1f} points", -100 * *out.would_have_seen);
  }

 private:
  bool Counts(const TrainingScore& score) const {
    return !when_solved_ || (score.base.steps && score.candidate.steps);
  }

  std::vector<double> Losses(std::int64_t count) const {
    std::vector<double> losses;
    for (const TrainingScore& score : First(scores_, count)) {
      if (Counts(score)) losses.push_back(score.base.accuracy - score.candidate.accuracy);
    }
    return losses;
  }

  std::vector<TrainingScore> scores_;
  double margin_;
  bool when_solved_;
};

// --- which of them
// --------------------------------------------------------------------------------

struct Candidates {
  const Experiment& experiment;
  const GateSettings& settings;
  std::vector<Row>& rows;
};

// As a headline where there are pairs enough to judge it, else as a row that is shown.
void Add(const Candidates& of, std::string_view metric, std::unique_ptr<Headline> headline,
         const std::string& obstacle, Headlines& family) {
  const auto num_pairs = static_cast<std::int64_t>(of.experiment.pairs.size());
  headline->num_pairs = num_pairs;
  headline->row = RowOf(of.experiment, Gate::kLearning, std::string(metric));
  std::string reason = obstacle;
  if (reason.empty() && !of.settings.judge_learning) {
    reason = "Preset " + of.settings.preset + " shows learning and does not judge it.";
  }
  if (reason.empty() && num_pairs < of.settings.looks.front()) {
    reason = fmt::format("{} paired seeds; {} are the fewest that are judged.", num_pairs,
                         of.settings.looks.front());
    headline->row.has_too_few_seeds = true;
  }
  if (reason.empty()) {
    family.push_back(std::move(headline));
    return;
  }
  const double level = of.settings.alpha / static_cast<double>(of.settings.looks.size());
  headline->Describe(num_pairs, {level, level, true}, headline->row);
  headline->row.would_have_seen.reset();
  headline->row.would_have_seen_text.clear();
  headline->row.say += " " + reason;
  headline->row.verdict = Verdict::kNotGated;
  of.rows.push_back(std::move(headline->row));
}

double AccuracyMargin(const Experiment& experiment, const GateSettings& settings,
                      const AccuracyNoise& noise) {
  const auto found = noise.find(reports::SplitCellName(experiment.cell).task);
  const double sd = found == noise.end() ? 0 : found->second;
  return std::max(settings.accuracy_margin, settings.accuracy_margin_sds * sd);
}

}  // namespace

void AddHeadlines(const Experiment& experiment, const GateSettings& settings,
                  const AccuracyNoise& noise, Families& families, std::vector<Row>& rows) {
  const Candidates of{experiment, settings, rows};
  const std::vector<TrainingScore> scores = ScoresOf(experiment);
  const auto solved = std::count_if(scores.begin(), scores.end(), [](const TrainingScore& score) {
    return score.base.steps.has_value();
  });
  const auto seeds = static_cast<std::ptrdiff_t>(scores.size());
  const double margin = AccuracyMargin(experiment, settings, noise);
  if (solved == 0) {
    const bool is_guessing = MeanBaseAccuracy(scores) <= GuessingAccuracy(experiment) + margin;
    Add(of, "accuracy", std::make_unique<Accuracy>(scores, margin, /*when_solved=*/false),
        is_guessing ? "Base is at the level of guessing: there is nothing to lose." : "",
        families.learning);
    return;
  }
  const bool is_rare = 2 * solved < seeds;
  const std::string obstacle =
      is_rare ? fmt::format("Base solves {} of {} seeds: no loss could be told from luck.", solved,
                            seeds)
              : "";
  Add(of, "solve_rate", std::make_unique<SolveRate>(scores), obstacle, families.learning);
  Add(of, "steps_to_threshold",
      std::make_unique<Steps>(scores, settings.steps_margin, settings.suspicious_ratio,
                              settings.suspicious_p),
      obstacle, families.learning);
  Add(of, kAccuracyWhenSolved, std::make_unique<Accuracy>(scores, margin, /*when_solved=*/true),
      obstacle, families.when_solved);
}

}  // namespace mixerbench::gate
