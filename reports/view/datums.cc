// SPDX-License-Identifier: Apache-2.0
#include "reports/view/datums.h"

#include <fmt/format.h>
#include <utility>

#include "reports/view/cell_parts.h"
#include "reports/view/numbers.h"

namespace mixerbench::reports {
namespace {

const AccuracyRow* ItemRow(const Study& study, const GroupSummary& group,
                           const AccuracyOverSeeds& row) {
  for (const CellResult& cell : CellsOf(*study.report, group)) {
    const AccuracyRow* item = WholeSegment(cell, row.axes);
    if (item && item->num_scored > 0) return item;
  }
  return nullptr;
}

std::string FirstFailure(const Study& study, const GroupSummary& group) {
  for (const CellResult& cell : CellsOf(*study.report, group)) {
    if (cell.state != CellState::kCompleted) {
      return std::string(NameOf(cell.state)) + (cell.reason.empty() ? "" : ": " + cell.reason);
    }
  }
  return "";
}

Datum StateDatum(CellState state, std::string note) {
  Datum datum;
  datum.state = state;
  datum.text = state == CellState::kCompleted ? kNone : std::string(NameOf(state));
  datum.note = std::move(note);
  return datum;
}

CellState FirstState(const Study& study, const GroupSummary& group) {
  for (const CellResult& cell : CellsOf(*study.report, group)) {
    if (cell.state != CellState::kCompleted) return cell.state;
  }
  return CellState::kCompleted;
}

const ModelFacts* FactsOf(const Study& study, const GroupSummary* group) {
  if (!group) return nullptr;
  for (const CellResult& cell : CellsOf(*study.report, *group)) {
    if (cell.model.num_parameters > 0) return &cell.model;
  }
  return nullptr;
}

}  // namespace

Datum TextDatum(std::string text, std::string sub) {
  Datum datum;
  datum.text = text.empty() ? std::string(kNone) : std::move(text);
  datum.sub = std::move(sub);
  return datum;
}

Datum NumberDatum(std::optional<double> value, std::string text) {
  Datum datum;
  datum.value = value;
  if (value) datum.text = std::move(text);
  return datum;
}

std::string IntervalText(const Interval& interval, double value, int decimals) {
  if (value >= 1) return "≥ " + Percent(interval.low, decimals);
  return PercentRange(interval.low, interval.high, decimals);
}

std::string SeedList(const std::vector<std::optional<double>>& seeds, int decimals) {
  std::string text;
  for (const auto& seed : seeds) text += (text.empty() ? "" : " · ") + Percent(seed, decimals);
  return text;
}

Datum AccuracyDatum(const Study& study, const GroupSummary* group, std::size_t segment) {
  if (!group) return {};
  const AccuracyOverSeeds* row = RowAt(study, *group, segment);
  if (!row) {
    const std::string why = FirstFailure(study, *group);
    return StateDatum(FirstState(study, *group), why);
  }
  if (!row->mean) return StateDatum(row->state, row->reason);
  const AccuracyRow* item = ItemRow(study, *group, *row);
  const int decimals = item && item->num_scored < kItemsForTwoDecimals ? 1 : 2;
  Datum datum;
  datum.value = row->mean;
  datum.is_imputed = AnyImputed(*row);
  datum.text = Percent(row->mean, decimals) + (datum.is_imputed ? " †" : "");
  if (row->ci_seeds) {
    for (const auto& seed : row->per_seed) {
      if (seed) datum.seeds.push_back(*seed);
    }
  }
  std::string what;
  if (const auto& ci = row->ci_seeds ? row->ci_seeds : row->ci_items) {
    datum.low = ci->low;
    datum.high = ci->high;
    datum.sub = IntervalText(*ci, *row->mean, decimals);
    what = row->ci_seeds ? "95 % interval over seeds " : "95 % interval over items ";
  }
  if (row->per_seed.size() > 1 && !row->ci_seeds) datum.sub = SeedList(row->per_seed, decimals);
  datum.note = SegmentText(row->axes);
  if (item && row->per_seed.size() == 1) {
    datum.note +=
        fmt::format("\n{} of {} positions right", Count(static_cast<double>(item->num_correct)),
                    Count(static_cast<double>(item->num_scored)));
  } else if (row->per_seed.size() > 1) {
    datum.note += "\nseeds: " + SeedList(row->per_seed, decimals);
  }
  if (!what.empty())
    datum.note +=
        "\n" + what + IntervalText({"", .95, *datum.low, *datum.high}, *row->mean, decimals);
  if (const std::string chosen = ChosenText(study, *group); !chosen.empty()) {
    datum.note += "\nchosen: " + chosen;
  }
  if (row->state != CellState::kCompleted) {
    datum.note +=
        "\n" + std::string(NameOf(row->state)) + (row->reason.empty() ? "" : ": " + row->reason);
  }
  return datum;
}

Datum StepsDatum(const Study& study, const GroupSummary* group) {
  Datum datum;
  if (!group) return datum;
  if (!group->steps_to_threshold) {
    // All failed before they knew what they were to reach.
    if (IsFailure(FirstState(study, *group))) datum.text = "not reached";
    return datum;
  }
  const StepsOverSeeds& steps = *group->steps_to_threshold;
  datum.value = steps.median;
  datum.text = steps.median ? Count(*steps.median) : "not reached";
  if (steps.per_seed.size() > 1) {
    for (const auto& seed : steps.per_seed) {
      datum.note += (datum.note.empty() ? "seeds: " : ", ") +
                    (seed ? Count(static_cast<double>(*seed)) : std::string("never"));
    }
    if (steps.num_censored > 0) datum.sub = fmt::format("{} never", steps.num_censored);
  }
  if (const std::string chosen = ChosenText(study, *group); !chosen.empty()) {
    datum.sub += (datum.sub.empty() ? "" : "; ") + chosen;
  }
  return datum;
}

Datum SolvedDatum(const GroupSummary* group) {
  Datum datum;
  if (!group || !group->solve_rate) return datum;
  const SolveRate& rate = *group->solve_rate;
  datum.value = static_cast<double>(rate.num_solved) / static_cast<double>(rate.num_seeds);
  datum.text = fmt::format("{} of {}", rate.num_solved, rate.num_seeds);
  datum.low = rate.ci.low;
  datum.high = rate.ci.high;
  datum.sub = PercentRange(rate.ci.low, rate.ci.high, 0) + " %";
  datum.note = "95 % interval of the solve rate (Wilson)";
  return datum;
}

Datum LengthDatum(const GroupSummary* group) {
  Datum datum;
  if (!group || !group->effective_length) return datum;
  const EffectiveLength& length = *group->effective_length;
  if (length.median) {
    datum.value = static_cast<double>(*length.median);
    datum.text = Count(*datum.value);
  } else {
    datum.note = length.reason;
  }
  return datum;
}

Datum ParamsDatum(const Study& study, const GroupSummary* group) {
  Datum datum;
  if (const ModelFacts* facts = FactsOf(study, group)) {
    datum.value = static_cast<double>(facts->num_parameters);
    datum.text = Si(datum.value);
    datum.note = Count(*datum.value) + " parameters";
  }
  return datum;
}

Datum StateSizeDatum(const Study& study, const GroupSummary* group) {
  Datum datum;
  const ModelFacts* facts = FactsOf(study, group);
  if (facts && facts->state_at_num_tokens > 0) {
    datum.value = static_cast<double>(facts->state_bytes_measured);
    datum.text = Bytes(datum.value);
    datum.note = fmt::format("{} bytes of one sequence after {} tokens, measured",
                             Count(*datum.value), facts->state_at_num_tokens);
  }
  return datum;
}

}  // namespace mixerbench::reports
