// SPDX-License-Identifier: Apache-2.0
#include "harness/training/token_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/where.h>

namespace mixerbench::harness {

at::Tensor AnswerDistances(const at::Tensor& inputs, const ScoredRows& answers) {
  const std::int64_t batch_size = inputs.size(0);
  const std::int64_t seq_len = inputs.size(1);
  const at::Tensor tokens = at::arange(seq_len, inputs.options());  // [T]
  const at::Tensor place =
      answers.rows.positions.view({batch_size, -1, 1}).remainder(seq_len).to(at::kInt);  // [B,M,1]
  const at::Tensor answer = answers.targets.view({batch_size, -1, 1});
  const at::Tensor stands = inputs.unsqueeze(1).eq(answer) & tokens.le(place);  // [B,M,T]
  const at::Tensor last = at::where(stands, tokens, -1).amax(-1);               // [B,M]
  const at::Tensor distance = at::where(last.ge(0), place.squeeze(-1) - last, 0).to(at::kFloat);
  // One entry more, for the positions at which nothing is scored.
  return at::constant_pad_nd(distance.flatten(), {0, 1})
      .index_select(0, answers.rows.inverse)
      .view({batch_size, seq_len});
}

at::Tensor TokenWeights(const at::Tensor& distances, double distance_weight,
                        const at::Tensor& fades) {
  return at::exp(-fades) + at::log1p(distances * distance_weight);
}

}  // namespace mixerbench::harness
