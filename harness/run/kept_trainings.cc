// SPDX-License-Identifier: Apache-2.0
#include "harness/run/kept_trainings.h"

#include <algorithm>
#include <set>

#include "harness/run/folder_report.h"
#include "harness/run/plan.h"
#include "harness/training/weights.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

// The trainings that cells with NamesTraining(kind) use, of these indices.
std::set<std::string> UsedTrainings(const std::vector<Cell>& cells,
                                    const std::vector<std::size_t>& indices) {
  std::set<std::string> used;
  for (const std::size_t i : indices) {
    if (NamesTraining(cells[i].kind)) used.insert(cells[i].training_id);
  }
  return used;
}

std::string Trainings(std::size_t count) { return Counted(count, "training"); }

}  // namespace

WeightsFolder WeightsOf(const fs::path& out, const std::string& training_id, bool is_strict) {
  return {WeightsPath(out, is_strict), std::string(DigitsOf(training_id))};
}

bool HasWeights(const fs::path& out, const std::string& training_id, bool is_strict) {
  std::vector<std::string> problems;  // whoever needs them says so
  return WeightsOf(out, training_id, is_strict).Load(problems).has_value();
}

std::string ForgetTrainingsWithoutWeights(const fs::path& out, const std::vector<Cell>& cells,
                                          const std::vector<std::size_t>& pending, bool is_strict,
                                          CellResults& results) {
  const std::set<std::string> used = UsedTrainings(cells, pending);
  std::set<std::string> forgotten;
  bool has_damaged = false;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string& id = cells[i].training_id;
    const bool is_done = results[i] && results[i]->state == reports::CellState::kCompleted;
    if (cells[i].kind != CellKind::kTrain || !is_done || !used.contains(id)) continue;
    if (HasWeights(out, id, is_strict)) continue;
    has_damaged = has_damaged || WeightsOf(out, id, is_strict).HasFile();
    results[i].reset();
    forgotten.insert(id);
  }
  if (forgotten.empty()) return "";
  return Trainings(forgotten.size()) + " of finished cells run again: other cells use their " +
         "weights, which " + (has_damaged ? "are damaged or were not kept" : "were not kept") +
         " (--keep-weights, --weights-limit)";
}

std::string KeptWeightsText(const fs::path& out, const std::vector<Cell>& cells,
                            const std::vector<std::size_t>& pending, bool is_strict) {
  std::size_t num_kept = 0;
  for (const std::size_t i : pending) {
    const Cell& cell = cells[i];
    num_kept +=
        cell.kind == CellKind::kTrain && WeightsOf(out, cell.training_id, is_strict).HasFile() ? 1
                                                                                               : 0;
  }
  return num_kept == 0 ? "" : ", " + std::to_string(num_kept) + " of them from kept weights";
}

std::string WhyTrainedAgain(const fs::path& out, const std::vector<reports::CellResult>& planned,
                            bool is_strict) {
  std::set<std::string> lost;
  for (const reports::CellResult& training : planned) {
    const reports::CellResult row = RowOf(out, training);
    const bool is_lost = row.state == reports::CellState::kCompleted &&
                         !WeightsOf(out, row.training_id, is_strict).HasFile();
    if (is_lost) lost.insert(row.training_id);
  }
  if (lost.empty()) return "";
  return Trainings(lost.size()) +
         " run again for other tests: their weights were not kept (--keep-weights, "
         "--weights-limit)";
}

void RemoveUsedWeights(const fs::path& out, const std::vector<Cell>& cells,
                       const CellResults& results, std::int64_t max_bytes, bool is_strict) {
  std::vector<std::size_t> all(cells.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  std::set<std::string> used = UsedTrainings(cells, all);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!results[i]) used.erase(cells[i].training_id);
  }
  for (const std::string& id : used) WeightsOf(out, id, is_strict).RemoveAbove(max_bytes);
}

}  // namespace mixerbench::harness
