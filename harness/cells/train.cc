// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/train.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include <ATen/core/grad_mode.h>

#include "harness/cells/run_cell.h"
#include "harness/cells/test_run.h"
#include "harness/cells/trained_model.h"
#include "harness/device/device.h"
#include "harness/device/plans.h"
#include "harness/evaluation/evaluate.h"
#include "harness/evaluation/segment_rows.h"
#include "harness/training/cell_guard.h"
#include "harness/training/checkpoint.h"
#include "harness/training/model.h"
#include "harness/training/trainer.h"
#include "harness/training/weights.h"
#include "reports/result/result_json.h"

namespace mixerbench::harness {
namespace {

// Steps may be slow: limits, checkpoints and signs of life do not wait for so and so many of them.
constexpr double kCheckInterval_s = 1;

// One training cell in flight.
class TrainRun : CellRun {
 public:
  explicit TrainRun(const CellRun& run)
      : CellRun(run),
        graphs_(device_, control_.use_graphs),
        model_(BuildModel(cell_, device_, registries_)),
        trainer_(cell_, model_, graphs_, registries_),
        tests_(cell_, model_, cell_.task.max_seq_len, graphs_, registries_, control_, result_),
        validation_sources_(MakeSources(cell_.task, cell_.task.validation, cell_.task.data_seed,
                                        tasks::Split::kValidation, device_, registries_)) {
    for (const SegmentSource& source : validation_sources_) {
      validation_.push_back(
          std::make_unique<SegmentEvaluator>(*model_.backbone, source, cell_.train, graphs_));
    }
    if (!control_.checkpoint_folder.empty()) {
      checkpoints_.emplace(control_.checkpoint_folder, cell_.run_id);
    }
    if (!control_.weights_folder.empty()) {
      weights_.emplace(control_.weights_folder, cell_.training_id);
    }
    result_.planned_steps = trainer_.num_steps();
  }

  ~TrainRun() { EnterPhase(phase_); }  // also a cell that failed shows where its time went
  TrainRun(const TrainRun&) = delete;
  TrainRun& operator=(const TrainRun&) = delete;

  void Run() {
    if (control_.require_device_cores) ProbeDeviceCores();
    if (!ResumeFromCheckpoint()) ReuseWeights();
    trainer_.losses().Restart(result_.step);
    result_.model =
        MeasureModel(model_, trainer_.max_seq_len(), device_, ComputeDtype(cell_.train.dtype));
    Train();
    if (weights_ && !result_.weights) KeepWeights();
    Test();
  }

 private:
  using Phase = double reports::PhaseTimes::*;

  // Before anything is trained: what is tested must run by device code too.
  void ProbeDeviceCores() {
    RequireDeviceCores(graphs_);
    for (const auto& evaluator : validation_) evaluator->Probe();
    tests_.Probe();
  }

  void AddPlans(const std::vector<PhaseWork>& all) {
    for (const PhaseWork& ran : all) AddPlan(ran, registries_.cores, result_.plans);
  }

  // An epoch that has no point on the learning curve yet is the current one; without steps left it
  // goes straight to its validation.
  void Train() {
    const std::int64_t num_steps = trainer_.num_steps();
    const std::int64_t per_epoch = trainer_.steps_per_epoch();
    const auto num_epochs = (num_steps + per_epoch - 1) / per_epoch;
    for (auto epoch = static_cast<std::int64_t>(result_.learning_curve.size());
         epoch < num_epochs && !result_.stopped_early; ++epoch) {
      const std::int64_t first_step = epoch * per_epoch;
      const std::int64_t end_step = std::min(first_step + per_epoch, num_steps);
      EnterPhase(&reports::PhaseTimes::train_s);
      trainer_.BeginEpoch(epoch, result_.step - first_step);
      while (result_.step < end_step) {
        trainer_.Step();
        result_.tokens_seen += trainer_.last_batch_tokens();
        ++result_.step;
        const bool last = result_.step == end_step;
        if (last || result_.step % trainer_.losses().interval() == 0) {
          CollectLosses(/*leave_newest=*/!last);
          CheckLimits();
        } else if (StopRequested()) {
          SaveAndStop();
        } else if (SecondsSince(last_check_) >
                   std::min(kCheckInterval_s, control_.checkpoint_interval_s)) {
          CheckLimits();
        }
      }
      AddPlans(trainer_.work());
      EnterPhase(&reports::PhaseTimes::validation_s);
      std::vector<double> means = loss_sums_;
      for (double& mean : means) mean /= static_cast<double>(end_step - first_step);
      FinishEpoch(means);
    }
  }

  // losses: means over the epoch, that of the scored positions first.
  void FinishEpoch(const std::vector<double>& losses) {
    const double accuracy = Validate();
    result_.learning_curve.push_back({.step = result_.step,
                                      .train_loss = losses.front(),
                                      .validation_accuracy = accuracy,
                                      .lr = trainer_.learning_rate(),
                                      .elapsed_s = result_.wall_s + SecondsSince(start_),
                                      .auxiliary_losses = {}});
    auto loss = losses.begin();
    for (const auto& [name, weight] : trainer_.loss_weights()) {
      result_.learning_curve.back().auxiliary_losses[name] = *++loss;
    }
    loss_sums_.assign(loss_sums_.size(), 0);
    if (!result_.steps_to_threshold && accuracy >= cell_.train.solved_accuracy) {
      result_.steps_to_threshold = result_.step;
    }
    if (cell_.train.early_stop_accuracy > 0 && accuracy > cell_.train.early_stop_accuracy) {
      result_.stopped_early = result_.step < trainer_.num_steps();
    }
  }

  // Adds the losses that have arrived to those of the epoch. Throws Diverged at the first that is
  // not finite.
  void CollectLosses(bool leave_newest) {
    trainer_.losses().Post(result_.step);
    while (const auto losses = trainer_.losses().Take(leave_newest)) {
      for (std::size_t i = 0; i < losses->values.size(); ++i) {
        for (std::size_t j = 0; j < loss_sums_.size(); ++j) {
          const float loss = losses->values[i][j];
          if (!std::isfinite(loss)) {
            result_.step = losses->first + static_cast<std::int64_t>(i) + 1;
            throw Diverged("training loss is not finite at step " + std::to_string(result_.step));
          }
          loss_sums_[j] += loss;
        }
      }
    }
  }

  double Validate() {
    double sum = 0, weight = 0;
    for (const auto& evaluator : validation_) {
      const auto [segment_sum, segment_weight] = ValidateSegment(*evaluator);
      sum += segment_sum;
      weight += segment_weight;
    }
    for (const auto& evaluator : validation_) AddPlans(evaluator->work("validation"));
    validation_accuracy_ = sum / weight;
    return *validation_accuracy_;
  }

  // The metric as a sum over positions or sequences, and how many these are.
  std::pair<double, double> ValidateSegment(SegmentEvaluator& evaluator) {
    const auto check_limits = [this] { CheckLimits(); };
    const auto require_finite = [this](const Tally& tally) {
      if (tally.num_not_finite == 0) return;
      throw Diverged("validation loss is not finite after step " + std::to_string(result_.step));
    };
    if (cell_.train.validation_metric == ValidationMetric::kAccuracy) {
      const Tally tally = evaluator.Count(check_limits);
      require_finite(tally);
      return {static_cast<double>(tally.num_correct), static_cast<double>(tally.num_scored)};
    }
    const SegmentScore score = evaluator.Score({}, check_limits);
    require_finite(score.tally);
    const reports::AccuracyRow& whole = score.rows.front();
    const auto& accuracy = cell_.train.validation_metric == ValidationMetric::kAccuracyPerExample
                               ? whole.accuracy_per_example
                               : whole.accuracy_macro_batched;
    const auto num_sequences = static_cast<double>(whole.num_sequences);
    return {accuracy.value() * num_sequences, num_sequences};
  }

  void Test() {
    EnterPhase(&reports::PhaseTimes::test_s);
    tests_.Run(trainer_.sources(), result_.step, [this] { CheckLimits(); });
  }

  // Called now and then, wherever the cell may end or be saved.
  void CheckLimits() {
    last_check_ = Clock::now();
    progress_({result_.step, trainer_.num_steps(), validation_accuracy_});
    if (StopRequested()) SaveAndStop();
    if (control_.deadline && Clock::now() > *control_.deadline) {
      throw TimedOut("time limit of the cell reached at step " + std::to_string(result_.step));
    }
    if (SecondsSince(last_save_) > control_.checkpoint_interval_s) TrySave();
  }

  bool StopRequested() const { return control_.stop_requested && control_.stop_requested(); }

  void SaveAndStop() {
    const bool saved = TrySave();
    throw Interrupted("stopped at step " + std::to_string(result_.step) +
                      (saved ? ", its state is saved" : ""));
  }

  // A checkpoint that cannot be written costs nothing unless the cell is interrupted, so it does
  // not end the cell.
  bool TrySave() {
    if (!checkpoints_) return false;
    const Phase interrupted = phase_;
    EnterPhase(&reports::PhaseTimes::checkpoint_s);
    const Outcome outcome = Guard([this] { Save(); });
    last_save_ = Clock::now();  // also after a failure: not again at once
    EnterPhase(interrupted);
    if (outcome.state == reports::CellState::kDiverged) throw Diverged(outcome.reason);
    if (outcome.state == reports::CellState::kCompleted) return true;
    std::cerr << "warning: no checkpoint: " << outcome.reason << std::endl;
    return false;
  }

  // All state that the rest of the cell depends on: random numbers are functions of the step.
  void Save() {
    const ProfileRange range("checkpoint");
    CollectLosses(/*leave_newest=*/false);
    AddPlans(trainer_.work());  // a later attempt may not run these shapes again
    Checkpoint checkpoint;
    checkpoint.step = result_.step;
    reports::CellResult so_far = result_;
    AddSpent(SecondsSince(start_), control_.energy_j(), so_far);
    checkpoint.progress = Object{{"result", reports::CellToValue(so_far)},
                                 {"loss_sums", Array(loss_sums_.begin(), loss_sums_.end())},
                                 {"num_tested", static_cast<std::int64_t>(tests_.num_tested())}};
    for (const auto& [name, tensor] : Parameters()) {
      checkpoint.tensors["parameter." + name] = tensor;
    }
    for (const auto& [name, tensor] : trainer_.optimizer().state()) {
      checkpoint.tensors[name] = tensor;
    }
    checkpoints_->Save(checkpoint);
  }

  kernels::NamedTensors Parameters() const {
    kernels::NamedTensors tensors;
    for (const auto& parameter : model_.parameters->parameters()) {
      tensors[parameter.name] = parameter.tensor;
    }
    return tensors;
  }

  // Weights that cannot be written cost a later evaluation its training and this cell nothing.
  void KeepWeights() {
    EnterPhase(&reports::PhaseTimes::checkpoint_s);
    const Outcome outcome = Guard([this] {
      FinalWeights weights{.training = result_, .parameters = Parameters()};
      AddSpent(SecondsSince(start_), control_.energy_j(), weights.training);
      result_.weights = weights_->Save(weights, control_.max_weight_bytes);
    });
    if (outcome.state == reports::CellState::kCompleted) return;
    std::cerr << "warning: weights are not kept: " << outcome.reason << std::endl;
  }

  void ReuseWeights() {
    if (!weights_) return;
    std::vector<std::string> problems;
    auto weights = weights_->Load(problems);
    if (weights) {
      const Outcome outcome =
          Guard([&] { TakeWeights(*weights, cell_, model_, cell_.task.max_seq_len, registries_); });
      if (outcome.state != reports::CellState::kCompleted) {
        problems.push_back(outcome.reason);
        weights.reset();
      }
    }
    for (const std::string& problem : problems) {
      std::cerr << "warning: " << problem << (weights ? "" : "; the cell trains again")
                << std::endl;
    }
    if (!weights) return;
    TakeTraining(weights->training, result_);
    result_.weights = weights->file;
    if (!result_.learning_curve.empty()) {
      validation_accuracy_ = result_.learning_curve.back().validation_accuracy;
    }
  }

  // False when there was none.
  bool ResumeFromCheckpoint() {
    if (!checkpoints_) return false;
    std::vector<std::string> problems;
    const auto checkpoint = checkpoints_->Load(problems);
    for (const std::string& problem : problems) std::cerr << "warning: " << problem << std::endl;
    if (!checkpoint) return false;
    result_ = reports::CellFromValue(*checkpoint->progress.Find("result"));
    const Array& sums = checkpoint->progress.Find("loss_sums")->as_array();
    for (std::size_t i = 0; i < loss_sums_.size(); ++i) loss_sums_[i] = sums.at(i).as_double();
    tests_.Continue(static_cast<std::size_t>(checkpoint->progress.Find("num_tested")->as_int()));
    result_.resumed_from_step = checkpoint->step;
    if (!result_.learning_curve.empty()) {
      validation_accuracy_ = result_.learning_curve.back().validation_accuracy;
    }
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : Parameters()) {
      at::Tensor(tensor).copy_(checkpoint->tensors.at("parameter." + name));
    }
    for (const auto& [name, tensor] : trainer_.optimizer().state()) {
      at::Tensor(tensor).copy_(checkpoint->tensors.at(name));
    }
    return true;
  }

  // Adds the time since the last call to the phase that ends, but for what capturing took.
  void EnterPhase(Phase phase) {
    reports::PhaseTimes& times = result_.phases ? *result_.phases : result_.phases.emplace();
    const double captured_s = graphs_.capture_s() - captured_s_;
    times.*phase_ += SecondsSince(phase_start_) - captured_s;
    times.capture_s += captured_s;
    captured_s_ += captured_s;
    phase_start_ = Clock::now();
    phase_ = phase;
  }

  Phase phase_ = &reports::PhaseTimes::setup_s;
  Clock::time_point phase_start_ = start_;
  Clock::time_point last_save_ = start_;
  Clock::time_point last_check_ = start_;
  StreamScope stream_{device_};
  GraphContext graphs_;
  Model model_;
  Trainer trainer_;
  TestRun tests_;
  std::vector<SegmentSource> validation_sources_;
  std::vector<std::unique_ptr<SegmentEvaluator>> validation_;
  std::optional<CheckpointFolder> checkpoints_;
  std::optional<WeightsFolder> weights_;
  std::optional<double> validation_accuracy_;
  // Of the current epoch, in the order of StepLoss::components.
  std::vector<double> loss_sums_ =
      std::vector<double>(static_cast<std::size_t>(trainer_.losses().num_losses()), 0);
  double captured_s_ = 0;  // of graphs_, up to the last phase
};

}  // namespace

reports::CellResult RunTrainCell(const Cell& cell, at::Device device, const Registries& registries,
                                 const RunControl& control, const ProgressCallback& progress) {
  reports::CellResult result = RunCell(cell, device, registries, control, progress,
                                       [](const CellRun& run) { TrainRun(run).Run(); });
  Guard([&] { AddMissingRows(cell, registries.tasks, result); });  // it has failed already
  return result;
}

}  // namespace mixerbench::harness
