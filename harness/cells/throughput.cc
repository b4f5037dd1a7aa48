// SPDX-License-Identifier: Apache-2.0
#include "harness/cells/throughput.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "harness/cells/parity.h"
#include "harness/cells/run_cell.h"
#include "harness/cells/timed_pass.h"
#include "harness/device/device.h"
#include "harness/device/graph.h"
#include "harness/device/memory_meter.h"
#include "harness/device/plans.h"
#include "harness/training/cell_guard.h"
#include "harness/training/model.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::harness {
namespace {

constexpr std::int64_t kWarmupIterations = 5;
constexpr std::int64_t kStateTokens = 160;  // after which a state is measured
constexpr double kLeastEnergySeconds = 1;   // the counter of energy moves in steps of up to 0.1 s

std::string Text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", number);
  return text;
}

class ThroughputRun : CellRun {
 public:
  explicit ThroughputRun(const CellRun& run) : CellRun(run), graphs_(device_, control_.use_graphs) {
    if (control_.require_device_cores) RequireDeviceCores(graphs_);
  }

  void Run() {
    const auto task = registries_.tasks.Find(cell_.task.name, "/task/name")
                          .create(cell_.task.train.front().params, "/task");
    const std::int64_t train_len = task->shape().seq_len;
    std::int64_t longest = train_len;
    for (const std::int64_t seq_len : cell_.throughput.seq_len)
      longest = std::max(longest, seq_len);
    const std::int64_t max_seq_len = longest + (cell_.throughput.Measures("decode") ? 1 : 0);
    const Model model = BuildModel(cell_, device_, registries_, max_seq_len);
    result_.model = MeasureModel(model, std::min(longest, kStateTokens), device_,
                                 ComputeDtype(cell_.train.dtype));
    const PassContext context{cell_, model, graphs_, registries_, max_seq_len};
    for (const std::string& phase : cell_.throughput.phases) {
      if (phase == "train_step") {
        AddRow(phase, cell_.train.batch_size, train_len, [&] { return MakeTrainStep(context); });
        continue;
      }
      for (const std::int64_t seq_len : cell_.throughput.seq_len) {
        AddRow(phase, cell_.throughput.batch_size, seq_len, [&] {
          if (phase == "prefill") return MakePrefillPass(context, seq_len);
          if (phase == "decode") return MakeDecodePass(context, seq_len);
          return MakeBackbonePass(context, seq_len, /*has_backward=*/phase == "fwd_bwd");
        });
      }
    }
  }

 private:
  void AddRow(const std::string& phase, std::int64_t batch_size, std::int64_t seq_len,
              const std::function<std::unique_ptr<TimedPass>()>& make) {
    reports::ThroughputRow row;
    row.phase = phase;
    row.batch_size = batch_size;
    row.seq_len = seq_len;
    row.dtype = std::string(NameOf(cell_.train.dtype));
    row.clock = std::string(ClockName(device_));
    row.parity_check = "not run";
    const Outcome outcome = Guard([&] {
      const auto pass = make();
      CheckParity(*pass, row);
      Measure(*pass, row);
    });
    row.state = outcome.state;
    row.reason = outcome.reason;
    const reports::CellState state = row.state;
    const std::string reason = row.reason;
    result_.throughput.push_back(std::move(row));
    ++result_.step;
    progress_({result_.step, num_rows(), std::nullopt});
    if (state == reports::CellState::kTimeout) throw TimedOut(reason);
    if (state == reports::CellState::kInterrupted) throw Interrupted(reason);
  }

  std::int64_t num_rows() const {
    std::int64_t rows = 0;
    for (const std::string& phase : cell_.throughput.phases) {
      rows +=
          phase == "train_step" ? 1 : static_cast<std::int64_t>(cell_.throughput.seq_len.size());
    }
    return rows;
  }

  void CheckParity(TimedPass& pass, reports::ThroughputRow& row) {
    pass.Run();  // the first time: decides by which plans the work runs
    AddPlan({row.phase, row.batch_size, row.seq_len, &pass.work()}, registries_.cores,
            result_.plans);
    RequireTimeLeft();
    row.parity = pass.CompareWithReference();
    RequireTimeLeft();
    row.parity_check = Holds(*row.parity) ? "passed" : "failed";
    if (Holds(*row.parity)) return;
    throw std::runtime_error(
        "the timed work disagrees with the reference, so its speed means "
        "nothing: error of " +
        row.parity->quantity + " " + Text(row.parity->error) + ", tolerance " +
        Text(row.parity->tolerance));
  }

  void Measure(TimedPass& pass, reports::ThroughputRow& row) {
    row.warmup_iterations = kWarmupIterations;
    memory_.ResetPeak();
    for (std::int64_t i = 0; i < kWarmupIterations; ++i) {
      pass.Run();
      RequireTimeLeft();
    }
    Synchronize(device_);
    // Before the samples, whose cache flushes hold memory of their own.
    row.peak_memory_bytes = memory_.PeakBytes();
    TakeSamples(pass, row);
    AddPlan({row.phase, row.batch_size, row.seq_len, &pass.work()}, registries_.cores,
            result_.plans);  // again: now it is a graph, or not
    row.execution = pass.work().is_graph() ? "graph" : "eager";
    row.median_ms = reports::Median(row.samples_ms);
    row.spread_ms = reports::Interval{.method = "percentile",
                                      .level = 0.6,
                                      .low = reports::Percentile(row.samples_ms, 0.2),
                                      .high = reports::Percentile(row.samples_ms, 0.8)};
    row.tokens_per_second = static_cast<double>(reports::TimedTokens(row)) / (*row.median_ms / 1e3);
  }

  // A sample that the GPU was slowed down in is dropped and taken again, so few it is.
  void TakeSamples(TimedPass& pass, reports::ThroughputRow& row) {
    const auto start = Clock::now();
    const std::optional<double> start_j = control_.energy_j();
    std::optional<std::uint64_t> before = control_.gpu.ThrottleReasons();
    std::uint64_t seen = before.value_or(0);
    while (std::ssize(row.samples_ms) < cell_.throughput.num_samples) {
      FlushCache(device_);
      const double ms = TimeMilliseconds(device_, [&] { pass.Run(); });
      const std::optional<std::uint64_t> after = control_.gpu.ThrottleReasons();
      const std::uint64_t around = before.value_or(0) | after.value_or(0);
      if ((around & kSlowdown) == 0) {
        row.samples_ms.push_back(ms);
      } else {
        ++row.throttled_samples_dropped;
      }
      seen |= around;
      before = after;
      if (before) row.throttle = ThrottleNames(seen & ~kGpuIdle);  // between samples it is idle
      RequireFewDropped(row);
      RequireTimeLeft();
    }
    const std::optional<double> end_j = control_.energy_j();
    if (start_j && end_j && SecondsSince(start) >= kLeastEnergySeconds) {
      row.energy_j = *end_j - *start_j;
    }
  }

  // Throws SlowedDown once the row is lost, however the rest of its samples turn out.
  void RequireFewDropped(const reports::ThroughputRow& row) const {
    const std::int64_t wanted = cell_.throughput.num_samples;
    if (4 * row.throttled_samples_dropped <= wanted) return;  // a fifth of all that are taken
    std::string reasons;
    for (const std::string& name : *row.throttle) reasons += (reasons.empty() ? "" : ", ") + name;
    throw SlowedDown("the GPU was slowed down in " + std::to_string(row.throttled_samples_dropped) +
                     " of " +
                     std::to_string(std::ssize(row.samples_ms) + row.throttled_samples_dropped) +
                     " samples (" + reasons + "): see to its cooling and power, then run again");
  }

  MemoryMeter memory_{device_};  // before everything that it shall count
  StreamScope stream_{device_};
  GraphContext graphs_;
};

}  // namespace

reports::CellResult RunThroughputCell(const Cell& cell, at::Device device,
                                      const Registries& registries, const RunControl& control,
                                      const ProgressCallback& progress) {
  reports::CellResult result = RunCell(cell, device, registries, control, progress,
                                       [](const CellRun& run) { ThroughputRun(run).Run(); });
  TakeStateOfTimings(result);
  return result;
}

void TakeStateOfTimings(reports::CellResult& result) {
  const bool is_curve =
      std::any_of(result.throughput.begin(), result.throughput.end(),
                  [](const auto& row) { return row.state == reports::CellState::kCompleted; });
  for (const reports::ThroughputRow& row : result.throughput) {
    // Where memory ends is what a curve shows.
    if (row.state == reports::CellState::kOom && is_curve) continue;
    if (row.state == reports::CellState::kSkipped) continue;
    TakeStateOf(row.phase + " at " + std::to_string(row.seq_len), row.state, row.reason, result);
  }
}

}  // namespace mixerbench::harness
