// Scores a model on a split, segment by segment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "harness/batch.h"
#include "harness/model.h"
#include "harness/train_config.h"
#include "reports/result.h"

namespace mixerbench::harness {

// Predictions at the scored positions of a batch: arg-max over the whole vocabulary (ties: lowest
// id) and cross-entropy in nats. Inputs longer than `piece_len` run in pieces with carried state,
// so memory does not grow with length for recurrent mixers.
struct Predictions {
  at::Tensor predicted;  // [N] int64
  at::Tensor nll;        // [N] fp32
};
Predictions Predict(const models::Backbone& backbone, const Batch& batch,
                    const ScoredPositions& scored, at::ScalarType compute_dtype,
                    std::int64_t piece_len);

struct SegmentScore {
  double accuracy = 0;
  bool finite = true;
  std::vector<reports::AccuracyRow> rows;
};

// `axes` name the segment in its rows. `checkpoint` is called between batches; what it throws ends
// the evaluation.
SegmentScore EvaluateSegment(const models::Backbone& backbone, const SegmentSource& source,
                             const TrainConfig& config, const Object& axes,
                             const std::function<void()>& checkpoint);

// The options that differ between the segments of a task, numbers and strings, plus
// "input_seq_len" when the task has it.
std::vector<Object> SegmentAxes(const std::vector<Segment>& segments);

}  // namespace mixerbench::harness
