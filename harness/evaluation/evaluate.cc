// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluation/evaluate.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "base/error.h"
#include "harness/device/device.h"
#include "harness/evaluation/reset_positions.h"
#include "harness/evaluation/score.h"
#include "harness/python/host.h"
#include "harness/python/module_state.h"
#include "harness/training/cell_guard.h"
#include "kernels/loss/cross_entropy.h"

namespace mixerbench::harness {
namespace {

constexpr std::int64_t kNoPrediction = -1;

// Hidden states of the listed positions, [N,D].
at::Tensor HiddenAtScored(const models::Backbone& backbone, const Batch& batch,
                          const kernels::ScoredPositions& rows, at::ScalarType compute_dtype,
                          std::int64_t piece_len, const models::TapScope& taps) {
  const std::int64_t seq_len = batch.inputs.size(1);
  if (seq_len <= piece_len) {
    return backbone
        .Forward(batch.inputs, {.compute_dtype = compute_dtype, .taps = taps, .scored = &rows})
        .hidden;
  }
  Require(!taps, "taps see whole inputs");
  const at::Tensor& positions = rows.positions;
  const at::Tensor row = positions.div(seq_len, "floor");
  const at::Tensor column = positions.remainder(seq_len);
  models::State state = backbone.InitialState(batch.inputs.size(0));
  at::Tensor hidden;
  for (std::int64_t first = 0; first < seq_len; first += piece_len) {
    const std::int64_t length = std::min(piece_len, seq_len - first);
    auto output = backbone.Forward(
        batch.inputs.narrow(1, first, length),
        {.compute_dtype = compute_dtype, .initial_state = &state, .want_final_state = true});
    // Every position is looked up in every piece and kept in its own: how many lie in a piece would
    // have to be asked of the device.
    const at::Tensor local = row * length + (column - first).clamp(0, length - 1);
    const at::Tensor found = output.hidden.flatten(0, 1).index_select(0, local);
    const at::Tensor here = column.ge(first).logical_and(column.lt(first + length)).unsqueeze(1);
    hidden = hidden.defined() ? at::where(here, found, hidden) : found;
    state = std::move(output.final_state);
  }
  return hidden;
}

// In what pieces inputs run: in none where a module would see all earlier tokens again in each.
std::int64_t PieceLen(const models::Backbone& backbone, std::int64_t seq_len,
                      std::int64_t piece_len) {
  if (seq_len <= piece_len || !SeesAllTokensAgain(backbone.InitialState(1))) return piece_len;
  return seq_len;
}

}  // namespace

Predictions Predict(const models::Backbone& backbone, const Batch& batch, const ScoredRows& scored,
                    at::ScalarType compute_dtype, std::int64_t piece_len,
                    const models::TapScope& taps) {
  const at::NoGradGuard no_grad;
  const at::Tensor hidden =
      HiddenAtScored(backbone, batch, scored.rows, compute_dtype, piece_len, taps);
  const auto result = kernels::SoftmaxCrossEntropy(backbone.Logits(hidden), scored.targets);
  return {result.predicted.masked_fill(result.nll.isnan(), kNoPrediction), result.nll};
}

SegmentEvaluator::SegmentEvaluator(const models::Backbone& backbone, const SegmentSource& source,
                                   const TrainConfig& config, GraphContext& graphs,
                                   const std::optional<WriteGateReset>& reset)
    : backbone_(backbone),
      source_(source),
      config_(config),
      graphs_(graphs),
      reset_(reset),
      max_scored_(MaxScored(source.task().shape(), tasks::LabelMode::kScored)),
      batch_size_(std::clamp<std::int64_t>(config.eval_batch_tokens / source.task().shape().seq_len,
                                           1, source.size())),
      piece_len_(PieceLen(backbone, source.task().shape().seq_len, config.eval_piece_len)) {
  const auto words = at::TensorOptions().dtype(at::kLong).device(graphs.device());
  cursor_ = at::zeros({2}, words);
  tally_ = at::zeros({3}, words);
  const std::int64_t seq_len = source.task().shape().seq_len;
  const bool is_in_pieces = seq_len > piece_len_;
  if (is_in_pieces && reset_) {
    throw ConfigError("", "inputs of " + std::to_string(seq_len) +
                              " tokens run in pieces, whose write gates have no mean over the "
                              "sequence; a larger train.eval_piece_len makes one of them");
  }
  if (reset_) {
    no_graphs_ = std::make_unique<GraphContext>(graphs.WithoutGraphs("write gates are replaced"));
  } else if (is_in_pieces) {
    no_graphs_ = std::make_unique<GraphContext>(graphs.WithoutGraphs("inputs run in pieces"));
  }
}

SegmentEvaluator::Shape& SegmentEvaluator::ShapeOf(std::int64_t count) {
  const auto [found, is_new] = shapes_.try_emplace(count);
  Shape& shape = found->second;
  if (!is_new) return shape;
  const auto options = at::TensorOptions().device(graphs_.device());
  shape.count = count;
  shape.batch = source_.generator().Allocate(count);
  shape.predicted = at::empty({count, max_scored_}, options.dtype(at::kLong));
  shape.nll = at::empty({count, max_scored_}, options.dtype(at::kFloat));
  shape.work = std::make_unique<RepeatedWork>(no_graphs_ ? *no_graphs_ : graphs_,
                                              [this, &shape] { RunBatch(shape); });
  return shape;
}

Predictions SegmentEvaluator::PredictBatch(const Shape& shape, const ScoredRows& scored) const {
  const auto predict = [&](const models::TapScope& taps) {
    return Predict(backbone_, shape.batch, scored, ComputeDtype(config_.dtype), piece_len_, taps);
  };
  if (!reset_) return predict({});
  models::TapRecorder recorder;
  recorder.wants = [](std::string_view) { return false; };
  recorder.override_write_gate = ResetPositions(*reset_, shape.batch.inputs, shape.first);
  Predictions predictions = predict(models::TapScope(recorder));
  if (!recorder.has_overridden) {
    throw ConfigError("", "no layer of this model has a write gate to replace");
  }
  return predictions;
}

// Everything a graph holds.
void SegmentEvaluator::RunBatch(const Shape& shape) {
  const at::NoGradGuard no_grad;
  if (source_.generator().generates_in_place()) {
    const auto* cursor = static_cast<const tasks::BatchCursor*>(cursor_.const_data_ptr());
    source_.generator().Generate(source_.WithKey({.count = shape.count, .cursor = cursor}),
                                 shape.batch);
    cursor_.select(0, 0).add_(shape.count);
  }
  const ScoredRows scored = ListScored(shape.batch.labels, max_scored_);
  const Predictions predictions = PredictBatch(shape, scored);
  tally_.add_(at::stack({scored.targets.ne(tasks::kIgnore).sum(),
                         predictions.predicted.eq(scored.targets).sum(),
                         at::isfinite(predictions.nll).logical_not().sum()}));
  shape.predicted.copy_(predictions.predicted.view_as(shape.predicted));
  shape.nll.copy_(predictions.nll.view_as(shape.nll));
}

// Queues the batch that begins with that sample.
const SegmentEvaluator::Shape& SegmentEvaluator::RunFrom(std::int64_t first) {
  Shape& shape = ShapeOf(std::min(batch_size_, source_.size() - first));
  shape.first = first;
  if (!source_.generator().generates_in_place()) {
    source_.generator().Generate(
        source_.WithKey({.first = static_cast<std::uint64_t>(first), .count = shape.count}),
        shape.batch);
  }
  shape.work->Run();
  return shape;
}

void SegmentEvaluator::Probe() {
  cursor_.zero_();
  RunFrom(0);
}

std::vector<PhaseWork> SegmentEvaluator::work(const std::string& phase) const {
  std::vector<PhaseWork> all;
  for (const auto& [count, shape] : shapes_) {
    all.push_back({phase, count, source_.task().shape().seq_len, shape.work.get()});
  }
  return all;
}

Tally SegmentEvaluator::Run(const Checkpoint& checkpoint, const Pass& pass) {
  while (batch_size_ > 1) {
    Tally tally;
    if (FitsInMemory([&] { tally = RunOnce(checkpoint, pass); })) return tally;
    shapes_.clear();
    batch_size_ /= 2;
  }
  return RunOnce(checkpoint, pass);
}

Tally SegmentEvaluator::RunOnce(const Checkpoint& checkpoint, const Pass& pass) {
  const ProfileRange range("evaluation");
  LaunchWindow window(graphs_.device());
  KeptValues values;
  cursor_.zero_();
  tally_.zero_();
  pass.begin();
  for (std::int64_t first = 0; first < source_.size(); first += batch_size_) {
    checkpoint();
    const Shape& shape = RunFrom(first);
    window.Advance();
    pass.each_batch(shape);
  }
  const at::Tensor tally = tally_.cpu();
  values.End();
  const auto* counts = tally.const_data_ptr<std::int64_t>();
  return {.num_scored = counts[0], .num_correct = counts[1], .num_not_finite = counts[2]};
}

Tally SegmentEvaluator::Count(const Checkpoint& checkpoint) { return Run(checkpoint, {}); }

SegmentScore SegmentEvaluator::Score(const Object& axes, const Checkpoint& checkpoint,
                                     SampleSink* sink) {
  std::optional<Scorer> scorer;
  const auto seq_len = static_cast<std::size_t>(source_.task().shape().seq_len);
  const auto max_scored = static_cast<std::size_t>(max_scored_);
  SegmentScore score;
  const auto add = [&](const Shape& shape) {
    const at::Tensor inputs = shape.batch.inputs.cpu();
    const at::Tensor labels = shape.batch.labels.cpu();
    const at::Tensor predicted = shape.predicted.cpu();
    const at::Tensor nll = shape.nll.cpu();
    for (std::size_t i = 0; i < static_cast<std::size_t>(shape.count); ++i) {
      const std::span sample_inputs(inputs.const_data_ptr<std::int32_t>() + i * seq_len, seq_len);
      const std::span sample_labels(labels.const_data_ptr<std::int32_t>() + i * seq_len, seq_len);
      const auto num_scored = static_cast<std::size_t>(
          std::count_if(sample_labels.begin(), sample_labels.end(),
                        [](std::int32_t label) { return label != tasks::kIgnore; }));
      const std::span sample_predicted(predicted.const_data_ptr<std::int64_t>() + i * max_scored,
                                       num_scored);
      scorer->Add(sample_inputs, sample_labels, sample_predicted,
                  {nll.const_data_ptr<float>() + i * max_scored, num_scored});
      if (sink) sink->Add(sample_inputs, sample_labels, sample_predicted);
    }
  };
  const auto begin = [&] {
    scorer.emplace(source_.task());
    if (sink) sink->Begin();
  };
  score.tally = Run(checkpoint, {.begin = begin, .each_batch = add});
  score.rows = scorer->Rows(axes);
  score.batch_size = batch_size_;
  return score;
}

}  // namespace mixerbench::harness
