// SPDX-License-Identifier: Apache-2.0
#include "harness/throughput.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "harness/cell_guard.h"
#include "harness/data.h"
#include "harness/device.h"
#include "harness/graph.h"
#include "harness/model.h"
#include "harness/trainer.h"
#include "reports/statistics.h"

namespace mixerbench::harness {
namespace {

constexpr std::int64_t kWarmupIterations = 5;
constexpr std::int64_t kParityBatch = 2;
constexpr std::int64_t kParityMaxLen = 160;  // covers full and partial chunks of 64
// Relative RMS error of the fast path against the reference recurrence in the same precision.
// fp32 sums of a few hundred terms agree to 1e-5; tf32 and bf16 round operands to 2^-11 and 2^-9.
constexpr double kParityFp32 = 1e-4;
constexpr double kParityTf32 = 1e-2;
constexpr double kParityBf16 = 5e-2;

double ParityLimit(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
      return kParityFp32;
    case Dtype::kTf32:
      return kParityTf32;
    case Dtype::kBf16:
      return kParityBf16;
  }
  return kParityFp32;
}

at::Tensor RandomTokens(std::int64_t batch_size, std::int64_t seq_len, std::int64_t vocab_size,
                        at::Device device, std::uint64_t seed) {
  at::Generator generator = MakeGenerator(at::kCPU, seed);
  return at::empty({batch_size, seq_len}, at::kInt).random_(0, vocab_size, generator).to(device);
}

double RelativeError(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.to(at::kDouble);
  const at::Tensor e = expected.to(at::kDouble);
  return ((a - e).norm() / e.norm()).item<double>();
}

class ThroughputRun {
 public:
  ThroughputRun(const Cell& cell, at::Device device, const Registries& registries,
                const RunControl& control, const ProgressCallback& progress,
                reports::CellResult& result)
      : cell_(cell),
        device_(device),
        registries_(registries),
        control_(control),
        progress_(progress),
        result_(result),
        graphs_(device, control.use_graphs) {}

  void Run() {
    const auto task = registries_.tasks.Find(cell_.task.name, "/task/name")
                          .create(cell_.task.train.front().params, "/task");
    vocab_size_ = task->shape().vocab_size;
    const std::int64_t longest = std::max(
        *std::max_element(cell_.throughput.seq_len.begin(), cell_.throughput.seq_len.end()),
        task->shape().seq_len);
    const Model model = BuildModel(cell_, device_, registries_, longest);
    result_.model = MeasureModel(model, std::min(longest, kParityMaxLen), device_);
    parity_ = CheckParity(*model.backbone, longest);
    for (const std::string& phase : cell_.throughput.phases) {
      if (phase == "train_step") {
        AddRow(phase, cell_.train.batch_size, task->shape().seq_len,
               [&](reports::ThroughputRow& row) {
                 Trainer trainer(cell_, model, graphs_, registries_);
                 Measure(row, [&] {
                   const std::int64_t step = trainer.step();
                   if (step % trainer.steps_per_epoch() == 0) {
                     trainer.BeginEpoch(step / trainer.steps_per_epoch());
                   }
                   trainer.Step();
                 });
               });
        continue;
      }
      for (const std::int64_t seq_len : cell_.throughput.seq_len) {
        AddRow(phase, cell_.throughput.batch_size, seq_len, [&](reports::ThroughputRow& row) {
          if (phase == "fwd") {
            MeasureForward(row, *model.backbone);
          } else {
            MeasureForwardBackward(row, model);
          }
        });
      }
    }
  }

 private:
  std::string CheckParity(const models::Backbone& backbone, std::int64_t longest) {
    const at::NoGradGuard no_grad;
    const at::Tensor tokens = RandomTokens(kParityBatch, std::min(longest, kParityMaxLen),
                                           vocab_size_, device_, DeriveSeed(cell_.seed, "parity"));
    const at::ScalarType dtype = ComputeDtype(cell_.train.dtype);
    const auto fast = backbone.Forward(tokens, {.compute_dtype = dtype});
    const auto reference = backbone.Forward(
        tokens, {.path = models::ExecutionPath::kReference, .compute_dtype = dtype});
    const double error = RelativeError(fast.hidden, reference.hidden);
    return error <= ParityLimit(cell_.train.dtype) ? "passed" : "failed";
  }

  void AddRow(const std::string& phase, std::int64_t batch_size, std::int64_t seq_len,
              const std::function<void(reports::ThroughputRow&)>& measure) {
    reports::ThroughputRow row;
    row.phase = phase;
    row.batch_size = batch_size;
    row.seq_len = seq_len;
    row.dtype = std::string(NameOf(cell_.train.dtype));
    row.clock = std::string(ClockName(device_));
    row.parity_check = parity_;
    if (parity_ == "passed") {
      const Outcome outcome = Guard([&] { measure(row); });
      row.state = outcome.state;
      row.reason = outcome.reason;
    } else {
      row.state = reports::CellState::kError;
      row.reason = "the fast path disagrees with the reference, so its speed means nothing";
    }
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

  void MeasureForward(reports::ThroughputRow& row, const models::Backbone& backbone) {
    const at::Tensor tokens = Tokens(row);
    RepeatedWork forward(graphs_, [&] {
      const at::NoGradGuard no_grad;
      backbone.Forward(tokens, {.compute_dtype = ComputeDtype(cell_.train.dtype)});
    });
    Measure(row, [&] { forward.Run(); });
  }

  void MeasureForwardBackward(reports::ThroughputRow& row, const Model& model) {
    const at::Tensor tokens = Tokens(row);
    at::Tensor gradient;  // made by the first call, which is never captured
    RepeatedWork work(graphs_, [&] {
      for (const auto& parameter : model.parameters->parameters()) {
        parameter.tensor.mutable_grad().reset();
      }
      const at::Tensor hidden =
          model.backbone->Forward(tokens, {.compute_dtype = ComputeDtype(cell_.train.dtype)})
              .hidden;
      if (!gradient.defined()) gradient = hidden.detach().clone();
      hidden.backward(gradient);
    });
    Measure(row, [&] { work.Run(); });
    for (const auto& parameter : model.parameters->parameters()) {
      parameter.tensor.mutable_grad().reset();
    }
  }

  at::Tensor Tokens(const reports::ThroughputRow& row) const {
    return RandomTokens(row.batch_size, row.seq_len, vocab_size_, device_,
                        DeriveSeed(cell_.seed, "throughput"));
  }

  void Measure(reports::ThroughputRow& row, const std::function<void()>& work) {
    row.warmup_iterations = kWarmupIterations;
    ResetPeakMemory(device_);  // before the warm-up: replays of a graph allocate nothing
    for (std::int64_t i = 0; i < kWarmupIterations; ++i) {
      work();
      CheckLimits();
    }
    Synchronize(device_);
    row.execution = graphs_.use_graphs() ? "graph" : "eager";
    for (std::int64_t i = 0; i < cell_.throughput.num_samples; ++i) {
      FlushCache(device_);
      row.samples_ms.push_back(TimeMilliseconds(device_, work));
      CheckLimits();
    }
    row.peak_memory_bytes = PeakMemoryBytes(device_);
    row.median_ms = reports::Median(row.samples_ms);
    row.spread_ms = reports::Interval{.method = "percentile",
                                      .level = 0.6,
                                      .low = reports::Percentile(row.samples_ms, 0.2),
                                      .high = reports::Percentile(row.samples_ms, 0.8)};
    row.tokens_per_second =
        static_cast<double>(row.batch_size * row.seq_len) / (*row.median_ms / 1e3);
  }

  void CheckLimits() const {
    if (control_.stop_requested && control_.stop_requested()) throw Interrupted("stopped");
    if (control_.deadline && std::chrono::steady_clock::now() > *control_.deadline) {
      throw TimedOut("time limit of the cell reached");
    }
  }

  const Cell& cell_;
  at::Device device_;
  const Registries& registries_;
  const RunControl& control_;
  const ProgressCallback& progress_;
  reports::CellResult& result_;
  StreamScope stream_{device_};
  GraphContext graphs_;
  std::int64_t vocab_size_ = 0;
  std::string parity_ = "not run";
};

}  // namespace

reports::CellResult RunThroughputCell(const Cell& cell, at::Device device,
                                      const Registries& registries, const RunControl& control,
                                      const ProgressCallback& progress) {
  reports::CellResult result = ResultOf(cell);
  const Outcome outcome =
      Guard([&] { ThroughputRun(cell, device, registries, control, progress, result).Run(); });
  result.state = outcome.state;
  result.reason = outcome.reason;
  if (result.state == reports::CellState::kCompleted) {
    for (const auto& row : result.throughput) {
      if (row.state == reports::CellState::kError) {
        result.state = row.state;
        result.reason = row.phase + " at " + std::to_string(row.seq_len) + ": " + row.reason;
      }
    }
  }
  return result;
}

}  // namespace mixerbench::harness
