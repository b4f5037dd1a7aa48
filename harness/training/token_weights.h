// SILA's weighted loss: what lies far back counts more. The loss of the prediction at position t in
// step s = 0, 1, ... has the weight
//   exp(-s / s_0) + log(lambda r_t + 1),
// so that training begins with all tokens alike and ends with those alone that need memory.
//
// The paper reads r_t off the attention of a trained model (mixers/attention, tap
// attention_distance). Here the samples themselves tell it: r_t is how many tokens before t the
// answer to position t last stood, 0 where evaluation scores nothing or the answer never stood.
// Source: SILA, Algorithm 1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "harness/training/batch.h"

namespace mixerbench::harness {

// r: inputs [B,T] int32 and what evaluation scores of them -> [B,T] float32.
// Memory: B M T bytes and as many int32, for M scored positions a sample.
at::Tensor AnswerDistances(const at::Tensor& inputs, const ScoredRows& answers);

// exp(-fades) + log(distance_weight r + 1) for every element of `distances`, r. fades: [] float32,
// s / s_0.
at::Tensor TokenWeights(const at::Tensor& distances, double distance_weight,
                        const at::Tensor& fades);

}  // namespace mixerbench::harness
