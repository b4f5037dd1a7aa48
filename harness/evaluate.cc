// SPDX-License-Identifier: Apache-2.0
#include "harness/evaluate.h"

#include <algorithm>
#include <set>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>

#include "harness/score.h"

namespace mixerbench::harness {
namespace {

// Hidden states of the scored positions, [N,D].
at::Tensor HiddenAtScored(const models::Backbone& backbone, const Batch& batch,
                          const at::Tensor& positions, at::ScalarType compute_dtype,
                          std::int64_t piece_len) {
  const std::int64_t seq_len = batch.inputs.size(1);
  if (seq_len <= piece_len) {
    const auto output = backbone.Forward(batch.inputs, {.compute_dtype = compute_dtype});
    return output.hidden.flatten(0, 1).index_select(0, positions);
  }
  const at::Tensor row = positions.div(seq_len, "floor");
  const at::Tensor column = positions.remainder(seq_len);
  std::vector<models::State> state = backbone.InitialState(batch.inputs.size(0));
  at::Tensor hidden;
  for (std::int64_t first = 0; first < seq_len; first += piece_len) {
    const std::int64_t length = std::min(piece_len, seq_len - first);
    auto output = backbone.Forward(
        batch.inputs.narrow(1, first, length),
        {.compute_dtype = compute_dtype, .initial_state = &state, .want_final_state = true});
    const at::Tensor here =
        column.ge(first).logical_and(column.lt(first + length)).nonzero().squeeze(1);
    const at::Tensor local =
        row.index_select(0, here) * length + column.index_select(0, here) - first;
    const at::Tensor found = output.hidden.flatten(0, 1).index_select(0, local);
    if (!hidden.defined()) hidden = found.new_empty({positions.size(0), found.size(1)});
    hidden.index_copy_(0, here, found);
    state = std::move(output.final_state);
  }
  return hidden;
}

}  // namespace

Predictions Predict(const models::Backbone& backbone, const Batch& batch,
                    const ScoredPositions& scored, at::ScalarType compute_dtype,
                    std::int64_t piece_len) {
  const at::NoGradGuard no_grad;
  const at::Tensor hidden =
      HiddenAtScored(backbone, batch, scored.positions, compute_dtype, piece_len);
  const at::Tensor logits = backbone.Logits(hidden).to(at::kFloat);
  // ATen's arg-max reduction takes the lower index of equal values (harness_test holds it to that).
  return {logits.argmax(1),
          at::cross_entropy_loss(logits, scored.targets, {}, at::Reduction::None)};
}

SegmentScore EvaluateSegment(const models::Backbone& backbone, const SegmentSource& source,
                             const TrainConfig& config, const Object& axes,
                             const std::function<void()>& checkpoint) {
  Scorer scorer(source.task());
  const std::int64_t seq_len = source.task().shape().seq_len;
  for (std::int64_t first = 0; first < source.size(); first += config.eval_batch_size) {
    checkpoint();
    const std::int64_t count = std::min(config.eval_batch_size, source.size() - first);
    const Batch batch =
        source.Generate(static_cast<std::uint64_t>(first), count, {}, tasks::LabelMode::kScored);
    const ScoredPositions scored = FindScored(batch.labels);
    const Predictions predictions =
        Predict(backbone, batch, scored, ComputeDtype(config.dtype), config.eval_piece_len);
    const at::Tensor inputs = batch.inputs.cpu();
    const at::Tensor labels = batch.labels.cpu();
    const at::Tensor predicted = predictions.predicted.cpu();
    const at::Tensor nll = predictions.nll.cpu();
    const auto* next_predicted = predicted.const_data_ptr<std::int64_t>();
    const auto* next_nll = nll.const_data_ptr<float>();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::span sample_inputs(inputs.const_data_ptr<std::int32_t>() + i * seq_len,
                                    static_cast<std::size_t>(seq_len));
      const std::span sample_labels(labels.const_data_ptr<std::int32_t>() + i * seq_len,
                                    static_cast<std::size_t>(seq_len));
      const auto num_scored = static_cast<std::size_t>(
          std::count_if(sample_labels.begin(), sample_labels.end(),
                        [](std::int32_t label) { return label != tasks::kIgnore; }));
      scorer.Add(sample_inputs, sample_labels, {next_predicted, num_scored},
                 {next_nll, num_scored});
      next_predicted += num_scored;
      next_nll += num_scored;
    }
  }
  return {scorer.accuracy(), scorer.finite(), scorer.Rows(axes)};
}

std::vector<Object> SegmentAxes(const std::vector<Segment>& segments) {
  std::set<std::string> varying = {"input_seq_len"};
  for (const Segment& segment : segments) {
    for (const auto& [key, value] : segment.params.as_object()) {
      const Value* first = segments.front().params.Find(key);
      if (!first || !(*first == value)) varying.insert(key);
    }
  }
  std::vector<Object> axes;
  for (const Segment& segment : segments) {
    Object object;
    for (const std::string& key : varying) {
      if (const Value* value = segment.params.Find(key)) object[key] = *value;
    }
    axes.push_back(std::move(object));
  }
  return axes;
}

}  // namespace mixerbench::harness
