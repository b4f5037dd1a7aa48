// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/test_run.h"

#include <iostream>
#include <string>
#include <utility>

#include "harness/cells/run_cell.h"
#include "harness/device/plans.h"
#include "harness/evaluation/segment_rows.h"
#include "harness/training/cell_guard.h"
#include "harness/training/trainer.h"

namespace mixerbench::harness {

std::vector<SegmentSource> TestRun::Sources() const {
  return MakeSources(cell_.task, cell_.task.test, cell_.task.data_seed, tasks::Split::kTest,
                     graphs_.device(), registries_);
}

void TestRun::Probe() {
  for (const SegmentSource& source : Sources()) {
    SegmentEvaluator(*model_.backbone, source, cell_.train, graphs_, cell_.write_gate_reset)
        .Probe();
  }
}

void TestRun::Continue(std::size_t num_tested) {
  num_tested_ = num_tested;
  if (control_.item_suffix.empty() || result_.items.size() >= num_tested_) return;
  num_tested_ = 0;  // segments that were scored before somebody asked for their items
  result_.accuracy.clear();
  result_.eval_batch_sizes.clear();
  result_.items.clear();
}

void TestRun::Run(const std::vector<SegmentSource>& train_sources, std::int64_t step,
                  const SegmentEvaluator::Checkpoint& checkpoint) {
  const auto sources = Sources();
  const auto axes = SegmentAxes(cell_);
  const auto seen = SamplesSeen(cell_, train_sources, step);
  const std::int64_t longest_trained = LongestInput(train_sources);
  for (; num_tested_ < sources.size(); ++num_tested_) {
    const SegmentSource& source = sources[num_tested_];
    std::vector<reports::AccuracyRow> rows;
    const Outcome outcome = Guard([&] { rows = Score(source, axes[num_tested_], checkpoint); });
    if (outcome.state == reports::CellState::kInterrupted) throw Interrupted(outcome.reason);
    if (outcome.state != reports::CellState::kCompleted) {
      rows = {UnscoredRow(source.task(), axes[num_tested_], outcome.state, outcome.reason)};
    }
    rows.front().ceiling = source.task().Ceiling(seen, source.samples());
    for (auto& row : rows) {
      row.extrapolated = source.task().shape().seq_len > longest_trained;
      result_.accuracy.push_back(std::move(row));
    }
    if (outcome.state == reports::CellState::kTimeout) throw TimedOut(outcome.reason);
  }
}

std::vector<reports::AccuracyRow> TestRun::Score(const SegmentSource& source, const Object& axes,
                                                 const SegmentEvaluator::Checkpoint& checkpoint) {
  const auto items = ItemFileOf(source);
  SegmentScore score;
  RunOrRefuse(source.task().shape().seq_len, built_for_, [&] {
    SegmentEvaluator evaluator(*model_.backbone, source, cell_.train, graphs_,
                               cell_.write_gate_reset);
    score = evaluator.Score(axes, checkpoint, items.get());
    for (const PhaseWork& ran : evaluator.work("test")) {
      AddPlan(ran, registries_.cores, result_.plans);
    }
  });
  if (items) KeepItems(*items);
  result_.eval_batch_sizes.push_back(score.batch_size);
  return std::move(score.rows);
}

// Nothing when nobody asked for items.
std::unique_ptr<ItemFile> TestRun::ItemFileOf(const SegmentSource& source) const {
  if (control_.item_suffix.empty()) return nullptr;
  const std::string name = "items-" + std::to_string(num_tested_) + control_.item_suffix;
  return std::make_unique<ItemFile>(control_.item_folder / name, source.task(), cell_.task.name,
                                    static_cast<std::int64_t>(num_tested_));
}

void TestRun::KeepItems(ItemFile& file) {
  std::string problem;
  if (const auto kept = file.Finish(&problem)) {
    result_.items.push_back(*kept);
  } else {
    std::cerr << "warning: items are not kept: " << problem << std::endl;
  }
}

}  // namespace mixerbench::harness
