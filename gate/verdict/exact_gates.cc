// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/exact_gates.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <initializer_list>
#include <limits>
#include <utility>

#include "gate/verdict/shapes.h"
#include "gate/verdict/training_scores.h"
#include "io/value_path.h"
#include "reports/result/device.h"

namespace mixerbench::gate {
namespace {

using reports::AccuracyRow;
using reports::CellResult;
using reports::CellState;
using reports::LearningPoint;
using reports::ThroughputRow;

// NaN stands for itself.
bool SameNumber(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

double Deviation(double base, double candidate) {
  if (SameNumber(base, candidate)) return 0;
  const double deviation = std::abs(candidate - base) / std::abs(base);
  return std::isfinite(deviation) ? deviation : std::numeric_limits<double>::infinity();
}

bool SamePoint(const LearningPoint& a, const LearningPoint& b) {
  return a.step == b.step && SameNumber(a.train_loss, b.train_loss) &&
         a.validation_accuracy == b.validation_accuracy;
}

bool SameScores(const CellResult& base, const CellResult& candidate) {
  return std::equal(base.accuracy.begin(), base.accuracy.end(), candidate.accuracy.begin(),
                    candidate.accuracy.end(), [](const AccuracyRow& a, const AccuracyRow& b) {
                      return a.state == b.state && a.num_scored == b.num_scored &&
                             a.num_correct == b.num_correct && a.accuracy == b.accuracy &&
                             a.nll == b.nll;
                    });
}

// What of an environment can change bits where the code does not.
bool SameMachine(const CellResult& base, const CellResult& candidate) {
  const auto part = [](const Value& value, std::initializer_list<const char*> path) {
    const Value* at = &value;
    for (const char* key : path) {
      at = at->Find(key);
      if (at == nullptr) return Value();
    }
    return *at;
  };
  for (const auto& path : {std::initializer_list<const char*>{"device"},
                           {"gpu"},
                           {"cpu", "model"},
                           {"cuda"},
                           {"libtorch"},
                           {"determinism"},
                           {"tool", "build"},
                           {"tool", "compiler"}}) {
    if (!(part(base.environment, path) == part(candidate.environment, path))) return false;
  }
  return true;
}

// The replays of all seeds of one experiment.
struct Replays {
  std::int64_t same_bits = 0;
  std::int64_t seeds = 0;
  std::optional<std::int64_t> first_difference;
  std::optional<double> worst;        // deviation in the first steps
  std::int64_t unexplained = 0;       // other bits from the same code on the same machine
  std::int64_t scored_otherwise = 0;  // trained bit by bit alike
  double worst_score = 0;             // the most that these lost in a segment
  bool has_other_device = false;
};

Replays Collect(const Experiment& experiment, const GateSettings& settings) {
  Replays all;
  for (const CellPair& pair : experiment.pairs) {
    // One that ended early for a reason of its own replays nothing (FailureRows), nor does one that
    // was cut off on both sides: only a divergence has losses that lead to it.
    if (pair.base->state != pair.candidate->state) continue;
    if (pair.base->state != CellState::kCompleted && pair.base->state != CellState::kDiverged) {
      continue;
    }
    const bool has_curve = !pair.base->learning_curve.empty();
    if (pair.base->state == CellState::kDiverged && !has_curve) continue;
    const Replay replay = ReplayOf(pair, settings.replay_steps);
    ++all.seeds;
    all.has_other_device |= reports::DeviceOf(*pair.base) != reports::DeviceOf(*pair.candidate);
    if (!replay.same_bits && !replay.first_difference && has_curve) {
      ++all.scored_otherwise;
      all.worst_score = std::max(all.worst_score, WorstSegmentLoss(pair));
    }
    all.same_bits += replay.same_bits;
    if (!replay.same_bits && replay.same_code && replay.same_machine) ++all.unexplained;
    if (replay.first_difference) {
      all.first_difference = std::min(all.first_difference.value_or(*replay.first_difference),
                                      *replay.first_difference);
    }
    if (replay.early_deviation) {
      all.worst = std::max(all.worst.value_or(0), *replay.early_deviation);
    }
  }
  return all;
}

// By the precision that the experiment was asked to train in.
double ToleranceOf(const Experiment& experiment, const GateSettings& settings) {
  const std::string dtype = io::StringAt(experiment.pairs.front().base->config, "train.dtype");
  const bool is_low = !dtype.empty() && dtype != "fp32";
  return is_low ? settings.replay_tolerance_low : settings.replay_tolerance;
}

ReplayKind KindOf(const Replays& all, double tolerance, const GateSettings& settings) {
  if (all.same_bits == all.seeds) return ReplayKind::kEqual;
  if (all.worst && *all.worst > tolerance && !all.has_other_device) return ReplayKind::kBeyond;
  if (all.worst_score > settings.accuracy_margin) return ReplayKind::kScoresLost;
  if (all.unexplained > 0) return ReplayKind::kUnexplained;
  if (all.same_bits + all.scored_otherwise == all.seeds) return ReplayKind::kScores;
  return all.worst ? ReplayKind::kWithin : ReplayKind::kUnknown;
}

Verdict VerdictOf(ReplayKind kind) {
  switch (kind) {
    case ReplayKind::kEqual:
    case ReplayKind::kScores:
      return Verdict::kPass;
    case ReplayKind::kBeyond:
    case ReplayKind::kScoresLost:
      return Verdict::kRegression;
    case ReplayKind::kUnexplained:
      return Verdict::kSuspicious;
    default:
      return Verdict::kInconclusive;
  }
}

std::string Say(ReplayKind kind, const Replays& all, double tolerance,
                const GateSettings& settings) {
  const std::string from = all.first_difference
                               ? fmt::format("Differs from step {} on", *all.first_difference)
                               : std::string("Differs in its scores alone");
  const std::string early = fmt::format("the first {} steps", settings.replay_steps);
  switch (kind) {
    case ReplayKind::kEqual:
      return "Every loss and every score is the same.";
    case ReplayKind::kBeyond:
      return fmt::format("The loss of {} is off by {:.2g}, more than {:.2g}.", early, *all.worst,
                         tolerance);
    case ReplayKind::kScores:
    case ReplayKind::kScoresLost:
      return fmt::format(
          "{} of {} trained bit by bit alike and score otherwise, by at most {:.2g} "
          "points less in a segment.",
          all.scored_otherwise, all.seeds, 100 * all.worst_score);
    case ReplayKind::kUnexplained:
      return from + ", although the code and the machine are the same.";
    case ReplayKind::kWithin:
      return fmt::format("{}, by {:.2g} in {};", from, *all.worst, early);
    default:
      return from + "; no loss of " + early + " was kept;";
  }
}

std::string NameOfShape(const ThroughputRow& shape) {
  return fmt::format("{}, {} x {}", shape.phase, shape.batch_size, shape.seq_len);
}

// "tolerance: fwd_bwd, 4 x 160: d layers.0.norm.weight" of a shape that does not agree with the
// reference; empty when it does, or was not compared.
//
// The tolerance of a build follows from the error of its own plain code: a fault in code that both
// share widens it by as much as the error grows. In fp32, where tolerances hardly differ, an error
// has to be within that of base as well.
std::string LossOfParity(const ThroughputRow& shape, const CellResult& base) {
  const std::string where = fmt::format("tolerance: {}: {}", NameOfShape(shape),
                                        shape.parity ? shape.parity->quantity : shape.reason);
  if (shape.parity_check == "failed") return where;
  if (shape.parity_check != "passed" || shape.dtype != "fp32" || !shape.parity) return "";
  const ThroughputRow* const before = FindShape(base, shape);
  const bool is_known = before && before->parity_check == "passed" && before->parity;
  return is_known && shape.parity->error > before->parity->tolerance ? "base's " + where : "";
}

}  // namespace

Replay ReplayOf(const CellPair& pair, std::int64_t first_steps) {
  const CellResult& base = *pair.base;
  const CellResult& candidate = *pair.candidate;
  Replay replay;
  replay.same_code = !base.code_id.empty() && base.code_id == candidate.code_id;
  replay.same_machine = SameMachine(base, candidate);
  const auto& a = base.learning_curve;
  const auto& b = candidate.learning_curve;
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (!replay.first_difference && !SamePoint(a[i], b[i])) replay.first_difference = a[i].step;
    if (a[i].step == b[i].step && a[i].step <= first_steps) {
      replay.early_deviation =
          std::max(replay.early_deviation.value_or(0), Deviation(a[i].train_loss, b[i].train_loss));
    }
  }
  if (!replay.first_difference && a.size() != b.size()) {
    replay.first_difference = (a.size() > common ? a : b)[common].step;
  }
  if (!replay.first_difference && base.step != candidate.step) {
    replay.first_difference = std::min(base.step, candidate.step);
  }
  replay.same_bits =
      !replay.first_difference && base.state == candidate.state && SameScores(base, candidate);
  return replay;
}

std::vector<Row> DataRows(const Pairing& pairing) {
  if (pairing.hashes_compared == 0) return {};
  Row row;
  row.gate = Gate::kData;
  row.metric = "data";
  row.cell = "all cells";
  row.test = "exact";
  row.candidate =
      fmt::format("{} of {} hashes equal", pairing.hashes_equal, pairing.hashes_compared);
  const bool all_equal = pairing.hashes_equal == pairing.hashes_compared;
  row.verdict = all_equal ? Verdict::kPass : Verdict::kNotComparable;
  row.say = all_equal ? "Both sides saw the same samples."
                      : "The cells that differ are rows of their own.";
  return {row};
}

std::vector<Row> NumericsRows(const std::vector<Experiment>& experiments) {
  std::vector<Row> rows;
  for (const Experiment& experiment : experiments) {
    std::int64_t passed = 0, failed = 0;
    std::string lost, as_before;  // of a shape that base has within tolerance, or has not either
    for (const CellPair& pair : experiment.pairs) {
      for (const ThroughputRow& shape : pair.candidate->throughput) {
        const std::string loss = LossOfParity(shape, *pair.base);
        passed += loss.empty() && shape.parity_check == "passed";
        failed += !loss.empty();
        if (loss.empty()) continue;
        const ThroughputRow* const before = FindShape(*pair.base, shape);
        std::string& where = before && before->parity_check == "failed" ? as_before : lost;
        if (where.empty()) where = loss;
      }
      for (const ThroughputRow& shape : pair.base->throughput) {
        const ThroughputRow* const now = FindShape(*pair.candidate, shape);
        if (shape.parity_check != "passed" || !now || now->parity_check == "passed" ||
            now->parity_check == "failed" || now->state != reports::CellState::kCompleted) {
          continue;
        }
        ++failed;
        if (lost.empty()) lost = "tolerance, since no longer compared: " + NameOfShape(shape);
      }
    }
    if (passed + failed == 0) continue;
    Row row = RowOf(experiment, Gate::kNumerics, "parity");
    row.test = "exact";
    row.candidate = fmt::format("{} of {} shapes within tolerance", passed, passed + failed);
    row.verdict = failed == 0    ? Verdict::kPass
                  : lost.empty() ? Verdict::kNotGated
                                 : Verdict::kRegression;
    row.say = failed == 0    ? "What is timed agrees with the reference in float64."
              : lost.empty() ? "Not within " + as_before + "; nor in base."
                             : "Not within " + lost + ".";
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<ReplayRow> ReplayRows(const std::vector<Experiment>& experiments,
                                  const GateSettings& settings) {
  std::vector<ReplayRow> rows;
  for (const Experiment& experiment : experiments) {
    if (experiment.kind != "train") continue;
    const Replays all = Collect(experiment, settings);
    if (all.seeds == 0) continue;
    const double tolerance = ToleranceOf(experiment, settings);
    const ReplayKind kind = KindOf(all, tolerance, settings);
    Row row = RowOf(experiment, Gate::kReplay, "replay");
    row.test = "exact";
    row.margin = tolerance;
    row.candidate = fmt::format("{} of {} seeds equal bit by bit", all.same_bits, all.seeds);
    row.verdict = VerdictOf(kind);
    row.say = Say(kind, all, tolerance, settings);
    const bool has_all_seeds = all.seeds == static_cast<std::int64_t>(experiment.pairs.size());
    rows.push_back({kind, has_all_seeds, std::move(row)});
  }
  return rows;
}

bool IsAcknowledged(const Row& row, const GateSettings& settings) {
  return std::find(settings.acknowledged.begin(), settings.acknowledged.end(), row.cell) !=
         settings.acknowledged.end();
}

std::set<Subject> SettleReplays(const GateSettings& settings, std::vector<ReplayRow>& replays,
                                std::vector<Row>& learning) {
  std::set<Subject> judged, equal;
  for (const Row& row : learning) {
    if (row.verdict != Verdict::kNotGated) judged.insert(SubjectOf(row));
  }
  for (auto& [kind, has_all_seeds, row] : replays) {
    if (kind == ReplayKind::kEqual && has_all_seeds) equal.insert(SubjectOf(row));
    if (row.verdict == Verdict::kRegression && IsAcknowledged(row, settings)) {
      row.verdict = Verdict::kInconclusive;
      row.say += " Acknowledged;";
    }
    if (row.verdict != Verdict::kInconclusive) continue;
    const bool is_decided = judged.contains(SubjectOf(row));
    if (is_decided || (kind == ReplayKind::kWithin && !settings.judge_learning)) {
      row.verdict = Verdict::kPass;
    }
    row.say += is_decided ? " its rows over seeds (G3) decide."
                          : " seeds (G3) must decide, and were not judged.";
  }
  for (Row& row : learning) {
    const bool is_open = row.verdict == Verdict::kNotGated || row.verdict == Verdict::kInconclusive;
    if (!is_open || !equal.contains(SubjectOf(row))) continue;
    row.verdict = Verdict::kPass;
    row.test = "exact";
    row.say = "Equal bit by bit (G2).";
  }
  return equal;
}

}  // namespace mixerbench::gate
