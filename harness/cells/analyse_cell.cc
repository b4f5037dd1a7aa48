// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/analyse_cell.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "base/dotted_path.h"
#include "base/error.h"
#include "harness/cells/run_cell.h"
#include "harness/cells/trained_model.h"
#include "harness/device/device.h"
#include "harness/device/graph.h"
#include "harness/device/plans.h"
#include "harness/evaluation/segment_rows.h"
#include "harness/evaluation/state_metrics.h"
#include "harness/evaluation/tap_statistics.h"
#include "harness/python/host.h"
#include "harness/training/cell_guard.h"
#include "harness/training/trainer.h"
#include "models/taps.h"

namespace mixerbench::harness {
namespace {

// The taps of a cell on one segment, by path: "layers.0.write_gate".
struct Recorded {
  std::map<std::string, TapStatistics> by_path;
  std::set<std::string> offered;  // names that some layer would record, or that derive from them
};

class AnalyseRun : CellRun {
 public:
  explicit AnalyseRun(const CellRun& run)
      : CellRun(run),
        graphs_(device_, /*use_graphs=*/false, "taps are read"),
        trained_(LoadTrainedModel(cell_, device_, registries_, control_.weights_folder)),
        sources_(MakeSources(cell_.task, cell_.task.test, cell_.task.data_seed, tasks::Split::kTest,
                             device_, registries_)) {
    if (control_.require_device_cores) RequireDeviceCores(graphs_);
  }

  void Run() {
    result_.weights = trained_.weights.file;
    result_.step = trained_.weights.training.step;
    const auto train_sources = MakeSources(cell_.task, cell_.task.train, cell_.seed,
                                           tasks::Split::kTrain, at::kCPU, registries_);
    result_.model = MeasureModel(trained_.model, LongestInput(train_sources), device_,
                                 ComputeDtype(cell_.train.dtype));
    const std::vector<Object> axes = SegmentAxes(cell_);
    for (std::size_t i = 0; i < sources_.size(); ++i) AddRows(sources_[i], axes[i]);
  }

 private:
  void AddRows(const SegmentSource& source, const Object& axes) {
    Recorded recorded;
    const Outcome outcome = Guard([&] { recorded = Record(source); });
    if (outcome.state == reports::CellState::kInterrupted) throw Interrupted(outcome.reason);
    for (auto& row : RowsOf(recorded, outcome)) {
      row.axes = axes;
      row.num_sequences = source.size();
      result_.taps.push_back(std::move(row));
    }
    ++num_done_;
    if (outcome.state == reports::CellState::kTimeout) throw TimedOut(outcome.reason);
  }

  std::vector<reports::TapRow> RowsOf(const Recorded& recorded, const Outcome& outcome) const {
    std::vector<reports::TapRow> rows;
    std::set<std::string> found;
    for (const auto& [path, statistics] : recorded.by_path) {
      rows.push_back(statistics.Row());
      rows.back().path = path;
      rows.back().tap = LastPart(path);
      found.insert(rows.back().tap);
    }
    for (const std::string& tap : cell_.taps) {
      if (found.contains(tap) || (tap == kAllTaps && !found.empty())) continue;
      rows.emplace_back().tap = tap;
      const bool has_failed = outcome.state != reports::CellState::kCompleted;
      const Outcome why = has_failed ? outcome : WhyNot(tap, recorded);
      rows.back().state = why.state;
      rows.back().reason = why.reason;
    }
    return rows;
  }

  // A tap by its name that this model does not have is asked for in vain; one that has nothing to
  // record here, and all taps of a model without any, are answered.
  static Outcome WhyNot(const std::string& tap, const Recorded& recorded) {
    using reports::CellState;
    if (recorded.offered.contains(tap)) {
      return {CellState::kSkipped, "layers know it, and had nothing to record"};
    }
    if (tap == kAllTaps) return {CellState::kSkipped, "this model has no taps"};
    std::string names;
    for (const std::string& name : recorded.offered) names += (names.empty() ? "" : ", ") + name;
    return {CellState::kUnsupported,
            "no layer records it; " +
                (names.empty() ? "this model has no taps" : "recorded are: " + names)};
  }

  // Half as many samples at once as often as memory lacks.
  Recorded Record(const SegmentSource& source) {
    const std::int64_t seq_len = source.task().shape().seq_len;
    if (seq_len > cell_.train.eval_piece_len) {
      throw ConfigError("", "inputs of " + std::to_string(seq_len) +
                                " tokens run in pieces, of which no taps are recorded; a larger "
                                "train.eval_piece_len makes one of them");
    }
    auto batch_size =
        std::clamp<std::int64_t>(cell_.train.eval_batch_tokens / seq_len, 1, source.size());
    Recorded recorded;
    while (batch_size > 1) {
      if (FitsInMemory([&] { recorded = RecordBatches(source, batch_size); })) return recorded;
      batch_size /= 2;
    }
    return RecordBatches(source, 1);
  }

  Recorded RecordBatches(const SegmentSource& source, std::int64_t batch_size) {
    Recorded recorded;
    KeptValues values;
    for (std::int64_t first = 0; first < source.size(); first += batch_size) {
      progress_({static_cast<std::int64_t>(num_done_), std::ssize(sources_), std::nullopt});
      RequireTimeLeft();
      RecordBatch(source, first, std::min(batch_size, source.size() - first), recorded);
    }
    values.End();
    return recorded;
  }

  void RecordBatch(const SegmentSource& source, std::int64_t first, std::int64_t count,
                   Recorded& recorded) {
    const at::NoGradGuard no_grad;
    const Batch batch = source.generator().Generate(
        source.WithKey({.first = static_cast<std::uint64_t>(first), .count = count}));
    models::TapRecorder recorder{
        .wants = [&](std::string_view path) { return IsNeeded(LastPart(path), recorded.offered); },
        .override_write_gate = std::nullopt,
        .records = {}};
    RepeatedWork work(graphs_, [&] {
      trained_.model.backbone->Forward(
          batch.inputs,
          {.compute_dtype = ComputeDtype(cell_.train.dtype), .taps = models::TapScope(recorder)});
    });
    RunOrRefuse(source.task().shape().seq_len, cell_.trained_max_seq_len, [&] { work.Run(); });
    AddPlan({"analyse", count, source.task().shape().seq_len, &work}, registries_.cores,
            result_.plans);
    for (const auto& [path, record] : recorder.records) AddRecord(path, record, count, recorded);
  }

  bool IsListed(std::string_view name) const {
    return std::find(cell_.taps.begin(), cell_.taps.end(), name) != cell_.taps.end();
  }

  bool IsAsked(std::string_view tap) const {
    return cell_.taps.front() == kAllTaps || IsListed(tap);
  }

  // Whether a record of this name is wanted or something that derives from it; adds what there is
  // to `offered`.
  bool IsNeeded(const std::string& tap, std::set<std::string>& offered) const {
    offered.insert(tap);
    bool is_needed = IsAsked(tap);
    for (const StateMetric& metric : StateMetrics()) {
      if (metric.tap != tap) continue;
      offered.emplace(metric.name);
      is_needed = is_needed || IsListed(metric.name);
    }
    return is_needed;
  }

  void AddRecord(const std::string& path, const at::Tensor& record, std::int64_t count,
                 Recorded& recorded) const {
    const std::string tap = LastPart(path);
    const std::string layer = path.substr(0, path.size() - tap.size());
    if (IsAsked(tap)) recorded.by_path[path].Add(record, count);
    for (const StateMetric& metric : StateMetrics()) {
      if (metric.tap != tap || !IsListed(metric.name)) continue;
      const at::Tensor value = metric.compute(record);
      if (value.defined()) recorded.by_path[layer + std::string(metric.name)].Add(value, count);
    }
  }

  StreamScope stream_{device_};
  GraphContext graphs_;
  TrainedModel trained_;
  std::vector<SegmentSource> sources_;
  std::size_t num_done_ = 0;  // segments
};

}  // namespace

reports::CellResult RunAnalyseCell(const Cell& cell, at::Device device,
                                   const Registries& registries, const RunControl& control,
                                   const ProgressCallback& progress) {
  reports::CellResult result = RunCell(cell, device, registries, control, progress,
                                       [](const CellRun& run) { AnalyseRun(run).Run(); });
  for (const reports::TapRow& row : result.taps) {
    if (row.state == reports::CellState::kSkipped) continue;
    TakeStateOf("tap " + row.tap + ", " + AxesText(row.axes), row.state, row.reason, result);
  }
  return result;
}

}  // namespace mixerbench::harness
