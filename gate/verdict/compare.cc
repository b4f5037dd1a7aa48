// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/compare.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "gate/verdict/exact_gates.h"
#include "gate/verdict/failure_rows.h"
#include "gate/verdict/headline.h"
#include "gate/verdict/speed_gate.h"
#include "gate/verdict/training_scores.h"

namespace mixerbench::gate {
namespace {

void Append(std::vector<Row> rows, std::vector<Row>& all) {
  std::move(rows.begin(), rows.end(), std::back_inserter(all));
}

// Learning of all experiments: the headlines judged, the rest shown.
std::vector<Row> LearningRows(const std::vector<Experiment>& experiments,
                              const CompareInputs& inputs, const GateSettings& settings,
                              Comparison& comparison) {
  static const AccuracyNoise kUnknown;
  const AccuracyNoise& noise = inputs.calibration ? inputs.calibration->accuracy_sd : kUnknown;
  Families families;
  std::vector<Row> rows;
  for (const Experiment& experiment : experiments) {
    if (experiment.kind == "train") AddHeadlines(experiment, settings, noise, families, rows);
  }
  comparison.num_headlines = std::ssize(families.learning);
  for (Headlines* family : {&families.learning, &families.when_solved}) {
    JudgeHeadlines(settings, *family);
    for (auto& headline : *family) rows.push_back(std::move(headline->row));
  }
  return rows;
}

void Acknowledge(const GateSettings& settings, std::vector<Row>& rows) {
  for (Row& row : rows) {
    if (row.verdict != Verdict::kSuspicious || !IsAcknowledged(row, settings)) continue;
    row.verdict = Verdict::kImproved;
    row.say += " Acknowledged.";
  }
}

std::optional<std::int64_t> SeedsWanted(const std::vector<Row>& rows,
                                        const GateSettings& settings) {
  std::optional<std::int64_t> wanted;
  for (const Row& row : rows) {
    const bool is_open = row.verdict == Verdict::kInconclusive ||
                         (row.verdict == Verdict::kNotGated && row.has_too_few_seeds);
    if (row.gate != Gate::kLearning || !is_open) continue;
    for (const std::int64_t look : settings.looks) {
      if (!row.looks.empty() && look <= row.looks.back().seeds) continue;
      wanted = std::min(wanted.value_or(look), look);
      break;
    }
  }
  return wanted;
}

// A base that hardly solves a setting shows little of what was lost there: it is named, and where
// the settings demand more of it nothing passes by its solve rate but what is `equal` bit by bit.
void JudgeWeakBases(const GateSettings& settings, const std::set<Subject>& equal,
                    Comparison& comparison) {
  for (Row& row : comparison.rows) {
    if (row.metric != "solve_rate" || !row.base_value ||
        *row.base_value >= settings.base_solve_rate) {
      continue;
    }
    const bool passes = row.verdict == Verdict::kPass || row.verdict == Verdict::kImproved;
    if (settings.weak_base_fails && passes && !equal.contains(SubjectOf(row))) {
      row.verdict = Verdict::kInconclusive;
      row.say +=
          fmt::format(" Base solves {}, and preset {} demands {:.0f} %: use an easier setting.",
                      row.base, settings.preset, 100 * settings.base_solve_rate);
      continue;
    }
    comparison.notes.push_back(
        {row.cell, fmt::format("base solves {}, below {:.0f} %: an easier setting would show more",
                               row.base, 100 * settings.base_solve_rate)});
  }
}

void NoteUnusedSeeds(const std::vector<Experiment>& experiments, const GateSettings& settings,
                     Comparison& comparison) {
  std::size_t most = 0;
  for (const Experiment& experiment : experiments) {
    most = std::max(most, experiment.pairs.size());
  }
  const auto cap = static_cast<std::size_t>(settings.looks.back());
  if (settings.judge_learning && most > cap) {
    comparison.notes.push_back(
        {"", fmt::format("{} paired seeds; preset {} looks at the first {} of them", most,
                         settings.preset, cap)});
  }
}

// Bits and times differ between devices; learning is judged all the same.
void NoteDevices(Comparison& comparison) {
  const std::string &base = comparison.base.device, &candidate = comparison.candidate.device;
  if (base.empty() || candidate.empty() || base == candidate) return;
  comparison.notes.push_back(
      {"", fmt::format("base ran on {}, new on {}: their times cannot be compared, and that other "
                       "bits come from other code is not known",
                       base, candidate)});
}

void KeepModels(const Side& side, std::map<std::string, Value>& models) {
  for (const reports::CellResult& cell : side.cells) {
    Value& model = models[cell.name];
    if (const Value* own = cell.config.Find("model"); own && model.is_null()) model = *own;
  }
}

void SortRows(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.verdict, a.gate, a.cell, a.metric, a.where) <
           std::tie(b.verdict, b.gate, b.cell, b.metric, b.where);
  });
}

}  // namespace

Comparison CompareReports(const CompareInputs& inputs, const GateSettings& settings) {
  Comparison comparison;
  comparison.settings = settings;
  comparison.base = FactsOf(inputs.base);
  comparison.candidate = FactsOf(inputs.candidate);
  Pairing pairing = PairCells(inputs.base, inputs.candidate);
  comparison.notes = std::move(pairing.notes);
  for (const auto& cell : inputs.candidate.cells) {
    comparison.num_failed += reports::IsFailure(cell.state) || reports::FailedSegment(cell);
  }
  KeepModels(inputs.base, comparison.models);
  KeepModels(inputs.candidate, comparison.models);
  comparison.hashes_equal = pairing.hashes_equal;
  comparison.hashes_compared = pairing.hashes_compared;

  std::vector<Row> learning = LearningRows(pairing.experiments, inputs, settings, comparison);
  std::vector<ReplayRow> replays = ReplayRows(pairing.experiments, settings);
  // Before equal bits settle what was not judged: those of some seeds say nothing of the others.
  Append(FailureRows(pairing.experiments, learning), comparison.rows);
  const std::set<Subject> equal = SettleReplays(settings, replays, learning);
  comparison.seeds_wanted = SeedsWanted(learning, settings);

  Append(DataRows(pairing), comparison.rows);
  Append(NumericsRows(pairing.experiments), comparison.rows);
  for (ReplayRow& replay : replays) comparison.rows.push_back(std::move(replay.row));
  Append(std::move(learning), comparison.rows);
  Append(TimeRows(pairing.experiments, inputs.timings, inputs.calibration, settings),
         comparison.rows);
  Append(ResourceRows(pairing.experiments, settings), comparison.rows);
  Append(std::move(pairing.rows), comparison.rows);
  Acknowledge(settings, comparison.rows);
  JudgeWeakBases(settings, equal, comparison);
  NoteUnusedSeeds(pairing.experiments, settings, comparison);
  NoteDevices(comparison);
  SortRows(comparison.rows);
  for (const Experiment& experiment : pairing.experiments) {
    std::vector<Detail> details = DetailsOf(experiment);
    std::move(details.begin(), details.end(), std::back_inserter(comparison.details));
  }
  return comparison;
}

bool WantsSecondStage(const Timings& timings, const GateSettings& settings) {
  for (const auto& [key, series] : SeriesOf(timings.first)) {
    if (FailsRuleR(series.log_ratios, settings)) return true;
  }
  return false;
}

}  // namespace mixerbench::gate
