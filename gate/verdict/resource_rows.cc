// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "gate/verdict/shapes.h"
#include "gate/verdict/speed_gate.h"
#include "io/json.h"
#include "io/text.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::gate {
namespace {

using reports::CellResult;
using reports::CellState;
using reports::ThroughputRow;

// Bytes of the two sides: growth beyond the margin is a regression, by one run.
Row BytesRow(const Experiment& experiment, const char* metric, std::int64_t base,
             std::int64_t candidate, double margin) {
  Row row = RowOf(experiment, Gate::kSpeed, metric);
  row.base_value = static_cast<double>(base);
  row.candidate_value = static_cast<double>(candidate);
  row.base = io::FormatBytes(base);
  row.candidate = io::FormatBytes(candidate);
  row.test = "exact";
  row.margin = margin;
  const double change = base == 0 ? (candidate == 0 ? 0.0 : 1.0)
                                  : static_cast<double>(candidate) / static_cast<double>(base) - 1;
  row.effect = {EffectKind::kChange, change, {}, {}, 1};
  row.verdict = change > margin    ? Verdict::kRegression
                : change < -margin ? Verdict::kImproved
                                   : Verdict::kPass;
  row.say = change == 0 ? "The same." : fmt::format("{:+.1f} %.", 100 * change);
  return row;
}

// The shape of a speed curve whose peak grew most; device memory only, the host's is not exact.
std::optional<Row> MemoryRow(const Experiment& experiment, const GateSettings& settings) {
  std::optional<Row> worst;
  for (const CellPair& pair : experiment.pairs) {
    for (const ThroughputRow& base : pair.base->throughput) {
      const ThroughputRow* candidate = FindShape(*pair.candidate, base);
      if (base.clock != "cuda_event" || candidate == nullptr || !base.peak_memory_bytes ||
          !candidate->peak_memory_bytes) {
        continue;
      }
      Row row = BytesRow(experiment, "peak_memory_bytes", *base.peak_memory_bytes,
                         *candidate->peak_memory_bytes, settings.memory_margin);
      row.where = ShapeText(base);
      if (!worst || row.effect.value > worst->effect.value) worst = std::move(row);
    }
  }
  return worst;
}

// Results that one name and one length promise to be of one model: its training, its timing, its
// fresh seeds.
struct StateKey {
  std::string cell, model;  // two suites of a merged plan may give one name to two models
  std::int64_t num_tokens = 0;
  auto operator<=>(const StateKey&) const = default;
};

std::int64_t StateOf(const CellResult& cell) { return cell.model.state_bytes_measured; }

// The first pair of which both sides completed: a cell that failed may not have been measured.
const CellPair* MeasuredPair(const Experiment& experiment) {
  for (const CellPair& pair : experiment.pairs) {
    const bool is_measured =
        pair.base->state == CellState::kCompleted && pair.candidate->state == CellState::kCompleted;
    if (is_measured) return &pair;
  }
  return nullptr;
}

// "at 256 tokens"; with the kind of the result where others of the cell say something else there.
// A cell has a row for each length.
std::string PlaceOfState(const CellResult& cell, bool is_first) {
  std::string place;
  if (cell.model.state_at_num_tokens > 0) {
    place = fmt::format("at {} tokens", cell.model.state_at_num_tokens);
  }
  if (is_first) return place;
  return place + (place.empty() ? "" : ", ") + cell.kind;
}

// The cells of two pairs carry different states, in base or in the candidate.
Row ContradictionRow(const Experiment& experiment, const CellPair& a, const CellPair& b,
                     std::int64_t num_tokens) {
  const bool differs_in_new = StateOf(*a.candidate) != StateOf(*b.candidate);
  const CellResult& first = differs_in_new ? *a.candidate : *a.base;
  const CellResult& second = differs_in_new ? *b.candidate : *b.base;
  Row row = RowOf(experiment, Gate::kSpeed, "state_bytes");
  row.where = first.kind + " and " + second.kind;
  row.test = "exact";
  row.verdict = Verdict::kSuspicious;
  row.say =
      fmt::format("One model at {} tokens carries {} in its {} cell and {} in its {} cell, in {}.",
                  num_tokens, io::FormatBytes(StateOf(first)), first.kind,
                  io::FormatBytes(StateOf(second)), second.kind, differs_in_new ? "new" : "base");
  return row;
}

// One row for each cell, however many of its results tell its state; a row more where they differ.
void AddStates(const std::vector<Experiment>& experiments, const GateSettings& settings,
               std::vector<Row>& rows) {
  std::map<StateKey, const CellPair*> known;
  for (const Experiment& experiment : experiments) {
    const CellPair* const pair = MeasuredPair(experiment);
    if (pair == nullptr) continue;
    const auto& [base, candidate] = *pair;
    if (StateOf(*base) == 0 && StateOf(*candidate) == 0) continue;
    const Value* model = base->config.Find("model");
    const StateKey key{base->name, model ? io::DumpJson(*model) : "",
                       base->model.state_at_num_tokens};
    const auto [at, is_new] = known.try_emplace(key, pair);
    const CellPair& first = *at->second;
    const bool is_same =
        StateOf(*first.base) == StateOf(*base) && StateOf(*first.candidate) == StateOf(*candidate);
    if (!is_new && !is_same) {
      rows.push_back(ContradictionRow(experiment, first, *pair, key.num_tokens));
    }
    if (is_new || !is_same) {
      Row row = BytesRow(experiment, "state_bytes", StateOf(*base), StateOf(*candidate),
                         settings.memory_margin);
      row.where = PlaceOfState(*base, is_new);
      rows.push_back(std::move(row));
    }
  }
}

// Median over seeds of the seconds that graphs took to be captured: shown, since what else the
// machine did meanwhile makes it many times as long.
std::optional<Row> CaptureRow(const Experiment& experiment) {
  std::vector<double> base, candidate;
  for (const CellPair& pair : experiment.pairs) {
    if (pair.base->phases) base.push_back(pair.base->phases->capture_s);
    if (pair.candidate->phases) candidate.push_back(pair.candidate->phases->capture_s);
  }
  if (base.empty() || candidate.empty()) return std::nullopt;
  const double before = reports::Median(base), after = reports::Median(candidate);
  if (before == 0 && after == 0) return std::nullopt;
  Row row = RowOf(experiment, Gate::kSpeed, "capture_seconds");
  row.base_value = before;
  row.candidate_value = after;
  row.base = fmt::format("{:.2f} s", before);
  row.candidate = fmt::format("{:.2f} s", after);
  row.effect = {EffectKind::kChange, before == 0 ? 0 : after / before - 1, {}, {}, 1};
  row.verdict = Verdict::kNotGated;
  row.say = "Once a process, beside whatever else ran.";
  return row;
}

// Shapes that completed in base and do not now.
void AddFailedShapes(const Experiment& experiment, std::vector<Row>& rows) {
  for (const CellPair& pair : experiment.pairs) {
    for (const ThroughputRow& base : pair.base->throughput) {
      if (base.state != CellState::kCompleted) continue;
      const ThroughputRow* candidate = FindShape(*pair.candidate, base);
      if (candidate && candidate->state == CellState::kCompleted) continue;
      Row row = RowOf(experiment, Gate::kSpeed, "time");
      row.where = ShapeText(base);
      row.base = "completed";
      const bool failed = candidate && reports::IsFailure(candidate->state);
      row.verdict = failed ? Verdict::kRegression : Verdict::kMissing;
      row.candidate = candidate ? std::string(NameOf(candidate->state)) : "";
      row.say = candidate ? "Did complete in base: " + candidate->reason + "."
                          : "Measured in base alone.";
      rows.push_back(std::move(row));
    }
  }
}

}  // namespace

std::vector<Row> ResourceRows(const std::vector<Experiment>& experiments,
                              const GateSettings& settings) {
  std::vector<Row> rows;
  AddStates(experiments, settings, rows);
  for (const Experiment& experiment : experiments) {
    for (auto& row : {MemoryRow(experiment, settings), CaptureRow(experiment)}) {
      if (row) rows.push_back(*row);
    }
    AddFailedShapes(experiment, rows);
  }
  return rows;
}

}  // namespace mixerbench::gate
