// SPDX-License-Identifier: Apache-2.0
#include "harness/train.h"

#include <algorithm>
#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "harness/cell_guard.h"
#include "harness/evaluate.h"
#include "harness/model.h"
#include "harness/trainer.h"

namespace mixerbench::harness {
namespace {

// Losses stay on the device for so many steps before the host looks at them.
constexpr std::int64_t kLogInterval = 50;

// One training cell in flight.
class TrainRun {
 public:
  TrainRun(const Cell& cell, at::Device device, const Registries& registries,
           const RunLimits& limits, const ProgressCallback& progress, reports::CellResult& result)
      : cell_(cell),
        device_(device),
        registries_(registries),
        limits_(limits),
        progress_(progress),
        result_(result),
        model_(BuildModel(cell, device, registries)),
        trainer_(cell, model_, device, registries),
        validation_(MakeSources(cell.task, cell.task.validation, cell.task.data_seed,
                                tasks::Split::kValidation, device, registries)),
        losses_(at::zeros({kLogInterval}, at::TensorOptions().dtype(at::kFloat).device(device))) {}

  void Run() {
    result_.model = MeasureModel(model_, trainer_.max_seq_len(), device_);
    result_.threshold = cell_.train.solved_accuracy;
    Train();
    Test();
  }

 private:
  void Train() {
    const std::int64_t num_steps = trainer_.num_steps();
    for (std::int64_t epoch = 0; result_.step < num_steps; ++epoch) {
      trainer_.BeginEpoch(epoch);
      double loss_sum = 0;
      std::int64_t epoch_steps = 0;
      for (std::int64_t i = 0; i < trainer_.steps_per_epoch() && result_.step < num_steps; ++i) {
        losses_[result_.step % kLogInterval].copy_(trainer_.Step(i, result_.step));
        result_.tokens_seen += trainer_.BatchTokens(i);
        ++result_.step;
        ++epoch_steps;
        const bool last = i + 1 == trainer_.steps_per_epoch() || result_.step == num_steps;
        if (result_.step % kLogInterval == 0 || last) {
          loss_sum += CollectLosses();
          Checkpoint();
        }
      }
      const double accuracy = Validate();
      result_.learning_curve.push_back({result_.step, loss_sum / static_cast<double>(epoch_steps),
                                        accuracy, trainer_.learning_rate(), Elapsed()});
      if (!result_.steps_to_threshold && accuracy >= cell_.train.solved_accuracy) {
        result_.steps_to_threshold = result_.step;
      }
      if (cell_.train.early_stop_accuracy > 0 && accuracy > cell_.train.early_stop_accuracy) {
        result_.stopped_early = result_.step < num_steps;
        break;
      }
    }
  }

  // Sum of the losses since the last call. Throws Diverged at the first that is not finite.
  double CollectLosses() {
    const at::Tensor losses = losses_.cpu();
    double sum = 0;
    for (std::int64_t step = collected_; step < result_.step; ++step) {
      const double loss = losses[step % kLogInterval].item<float>();
      if (!std::isfinite(loss)) {
        result_.step = step + 1;
        throw Diverged("training loss is not finite at step " + std::to_string(step + 1));
      }
      sum += loss;
    }
    collected_ = result_.step;
    return sum;
  }

  double Validate() {
    std::int64_t scored = 0;
    double correct = 0;
    for (const SegmentSource& source : validation_) {
      const SegmentScore score =
          EvaluateSegment(*model_.backbone, source, cell_.train, {}, [this] { Checkpoint(); });
      if (!score.finite) {
        throw Diverged("validation loss is not finite after step " + std::to_string(result_.step));
      }
      scored += score.rows.front().num_scored;
      correct += static_cast<double>(score.rows.front().num_correct);
    }
    validation_accuracy_ = correct / static_cast<double>(scored);
    return *validation_accuracy_;
  }

  void Test() {
    const auto sources = MakeSources(cell_.task, cell_.task.test, cell_.task.data_seed,
                                     tasks::Split::kTest, device_, registries_);
    const auto axes = SegmentAxes(cell_.task.test);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      std::vector<reports::AccuracyRow> rows;
      const Outcome outcome = Guard([&] {
        rows = EvaluateSegment(*model_.backbone, sources[i], cell_.train, axes[i], [this] {
                 Checkpoint();
               }).rows;
      });
      if (outcome.state != reports::CellState::kCompleted) {
        rows.assign(1, {});  // the failure is a row of its own
        rows.front().axes = axes[i];
        rows.front().state = outcome.state;
        rows.front().reason = outcome.reason;
        rows.front().chance = sources[i].task().baselines().front().accuracy;
      }
      for (auto& row : rows) {
        row.extrapolated = sources[i].task().shape().seq_len > trainer_.max_seq_len();
        result_.accuracy.push_back(std::move(row));
      }
      if (outcome.state == reports::CellState::kTimeout) throw TimedOut(outcome.reason);
    }
  }

  void Checkpoint() {
    progress_({result_.step, trainer_.num_steps(), validation_accuracy_});
    if (limits_.deadline && std::chrono::steady_clock::now() > *limits_.deadline) {
      throw TimedOut("time limit of the cell reached at step " + std::to_string(result_.step));
    }
  }

  double Elapsed() const {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    return elapsed.count();
  }

  const Cell& cell_;
  at::Device device_;
  const Registries& registries_;
  const RunLimits& limits_;
  const ProgressCallback& progress_;
  reports::CellResult& result_;
  Model model_;
  Trainer trainer_;
  std::vector<SegmentSource> validation_;
  at::Tensor losses_;
  std::int64_t collected_ = 0;
  std::optional<double> validation_accuracy_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

reports::CellResult RunTrainCell(const Cell& cell, at::Device device, const Registries& registries,
                                 const RunLimits& limits, const ProgressCallback& progress) {
  reports::CellResult result = ResultOf(cell);
  const Outcome outcome =
      Guard([&] { TrainRun(cell, device, registries, limits, progress, result).Run(); });
  result.state = outcome.state;
  result.reason = outcome.reason;
  return result;
}

}  // namespace mixerbench::harness
