// Scores a model on a split, segment by segment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/device/graph.h"
#include "harness/device/plans.h"
#include "harness/suite/train_config.h"
#include "harness/suite/write_gate_reset.h"
#include "harness/training/batch.h"
#include "harness/training/model.h"
#include "models/taps.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

// Predictions for the entries of `scored`: arg-max over the whole vocabulary (ties: lowest id; -1,
// which is right nowhere, among logits of which one is NaN) and cross-entropy in nats, 0 where an
// entry only fills up. Inputs longer than `piece_len` run in
// pieces with carried state, so memory does not grow with length for recurrent mixers; `taps` see
// whole inputs alone.
struct Predictions {
  at::Tensor predicted;  // [N] int64
  at::Tensor nll;        // [N] fp32
};
Predictions Predict(const models::Backbone& backbone, const Batch& batch, const ScoredRows& scored,
                    at::ScalarType compute_dtype, std::int64_t piece_len,
                    const models::TapScope& taps = {});

struct Tally {
  std::int64_t num_scored = 0;
  std::int64_t num_correct = 0;
  std::int64_t num_not_finite = 0;  // losses
};

struct SegmentScore {
  Tally tally;
  std::vector<reports::AccuracyRow> rows;
  std::int64_t batch_size = 0;  // of a whole batch, after what lack of memory took
};

// Sees every sample of a segment as it is scored.
class SampleSink {
 public:
  SampleSink() = default;
  SampleSink(const SampleSink&) = delete;
  SampleSink& operator=(const SampleSink&) = delete;
  virtual ~SampleSink() = default;
  // The first sample comes next; again when memory lacked.
  virtual void Begin() = 0;
  // As Scorer::Add.
  virtual void Add(std::span<const std::int32_t> inputs, std::span<const std::int32_t> labels,
                   std::span<const std::int64_t> predictions) = 0;
};

// Evaluates one segment as often as asked, by one graph for each shape of batch on a GPU; inputs
// that run in pieces are never captured, nor is an evaluation that replaces write gates (`reset`).
// A batch has as many sequences as make eval_batch_tokens; when memory lacks, half as many from
// then on. What is passed by reference must outlive it, but for `reset`.
class SegmentEvaluator {
 public:
  // Throws ConfigError where write gates are to be replaced in inputs that run in pieces, and, from
  // what runs, in a model that has none.
  SegmentEvaluator(const models::Backbone& backbone, const SegmentSource& source,
                   const TrainConfig& config, GraphContext& graphs,
                   const std::optional<WriteGateReset>& reset = std::nullopt);
  SegmentEvaluator(const SegmentEvaluator&) = delete;
  SegmentEvaluator& operator=(const SegmentEvaluator&) = delete;

  // `checkpoint` is called before every batch; what it throws ends the evaluation.
  using Checkpoint = std::function<void()>;

  // Counts on the device and reads once.
  Tally Count(const Checkpoint& checkpoint);

  // Runs the first batch, so that work() shows how this segment runs.
  void Probe();

  // What ran so far, one for each size of batch, as `phase`.
  std::vector<PhaseWork> work(const std::string& phase) const;

  // Everything a report shows, slices included; `axes` name the segment in its rows. `sink`, where
  // there is one, sees what is scored.
  SegmentScore Score(const Object& axes, const Checkpoint& checkpoint, SampleSink* sink = nullptr);

 private:
  // Batches of one size; the tensors are written by `work`.
  struct Shape {
    std::int64_t first = 0;  // sample of the batch at hand
    std::int64_t count = 0;
    Batch batch;
    at::Tensor predicted;  // [count, M] int64
    at::Tensor nll;        // [count, M] fp32
    std::unique_ptr<RepeatedWork> work;
  };

  // What is done with the batches of one pass over the segment.
  struct Pass {
    std::function<void()> begin = [] {};  // again after memory lacked
    std::function<void(const Shape&)> each_batch = [](const Shape&) {};
  };

  // Halves the batches until they fit.
  Tally Run(const Checkpoint& checkpoint, const Pass& pass);
  Tally RunOnce(const Checkpoint& checkpoint, const Pass& pass);
  const Shape& RunFrom(std::int64_t first);
  Shape& ShapeOf(std::int64_t count);
  void RunBatch(const Shape& shape);
  Predictions PredictBatch(const Shape& shape, const ScoredRows& scored) const;

  const models::Backbone& backbone_;
  const SegmentSource& source_;
  const TrainConfig& config_;
  GraphContext& graphs_;
  std::optional<WriteGateReset> reset_;
  std::unique_ptr<GraphContext> no_graphs_;  // for inputs in pieces and replaced write gates
  std::int64_t max_scored_;
  std::int64_t batch_size_;  // of a whole batch, in sequences
  std::int64_t piece_len_;   // of inputs that are longer
  at::Tensor cursor_;        // tasks::BatchCursor as int64 [2], on the device
  at::Tensor tally_;         // Tally as int64 [3], on the device
  std::map<std::int64_t, Shape> shapes_;
};

}  // namespace mixerbench::harness
