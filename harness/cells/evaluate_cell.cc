// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/evaluate_cell.h"

#include "harness/cells/run_cell.h"
#include "harness/cells/test_run.h"
#include "harness/cells/trained_model.h"
#include "harness/device/device.h"
#include "harness/device/plans.h"
#include "harness/evaluation/segment_rows.h"
#include "harness/training/cell_guard.h"
#include "harness/training/trainer.h"

namespace mixerbench::harness {
namespace {

class EvaluateRun : CellRun {
 public:
  explicit EvaluateRun(const CellRun& run)
      : CellRun(run),
        graphs_(device_, control_.use_graphs),
        trained_(LoadTrainedModel(cell_, device_, registries_, control_.weights_folder)),
        train_sources_(MakeSources(cell_.task, cell_.task.train, cell_.seed, tasks::Split::kTrain,
                                   at::kCPU, registries_)),
        tests_(cell_, trained_.model, cell_.trained_max_seq_len, graphs_, registries_, control_,
               result_) {}

  void Run() {
    result_.weights = trained_.weights.file;
    result_.step = trained_.weights.training.step;
    if (control_.require_device_cores) {
      RequireDeviceCores(graphs_);
      tests_.Probe();
    }
    result_.model = MeasureModel(trained_.model, LongestInput(train_sources_), device_,
                                 ComputeDtype(cell_.train.dtype));
    reports::PhaseTimes& times = result_.phases.emplace();
    times.setup_s = SecondsSince(start_) - graphs_.capture_s();
    const auto test_start = Clock::now();
    const double captured_s = graphs_.capture_s();
    tests_.Run(train_sources_, result_.step, [this] {
      progress_({static_cast<std::int64_t>(tests_.num_tested()), std::ssize(cell_.task.test),
                 std::nullopt});
      RequireTimeLeft();
    });
    times.capture_s = graphs_.capture_s();
    times.test_s = SecondsSince(test_start) - (times.capture_s - captured_s);
  }

 private:
  StreamScope stream_{device_};
  GraphContext graphs_;
  TrainedModel trained_;
  std::vector<SegmentSource> train_sources_;
  TestRun tests_;
};

}  // namespace

reports::CellResult RunEvaluateCell(const Cell& cell, at::Device device,
                                    const Registries& registries, const RunControl& control,
                                    const ProgressCallback& progress) {
  reports::CellResult result = RunCell(cell, device, registries, control, progress,
                                       [](const CellRun& run) { EvaluateRun(run).Run(); });
  for (const reports::AccuracyRow& row : result.accuracy) {
    if (row.slice.empty()) TakeStateOf(AxesText(row.axes), row.state, row.reason, result);
  }
  Guard([&] { AddMissingRows(cell, registries.tasks, result); });  // it has failed already
  return result;
}

}  // namespace mixerbench::harness
