// What the paths of TTT share, and the serial part of the fast one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/recurrence.h"
#include "kernels/linear_attention/ttt/ttt.h"

namespace mixerbench::kernels::ttt {

// The tokens of a call after those of its unfinished mini-batch, in the dtype of the computation.
struct TttTokens {
  at::Tensor k, v, learning_rate;  // [B,U+T,H,.]
  std::int64_t num_before = 0;     // U
};

PreparedRecurrence PrepareTtt(const TttArgs& args);
TttTokens AllTokens(const TttArgs& args, const PreparedRecurrence& sizes);

// The state after all tokens: `weight` and `bias` at the start of the last mini-batch that is not
// full, or after the last.
TttState StateAfter(const TttTokens& tokens, const at::Tensor& weight, const at::Tensor& bias,
                    std::int64_t mini_batch_size);

// Inputs of the serial part: N mini-batches of M tokens, R = B H sequences. Keys have a 1 for the
// bias at their end, the weights its row.
struct TttLearner {
  at::Tensor k;            // [N R,M,K+1]
  at::Tensor target;       // v - k [N R,M,K]
  at::Tensor rate;         // [N R,M,1], 0 for padding
  at::Tensor norm_weight;  // [N R,1,K]
  at::Tensor norm_bias;    // [N R,1,K]
  at::Tensor step;         // token_scale of the last place, [1]
  at::Tensor weights;      // before the first, [R,K+1,K]
};

struct TttLearned {
  at::Tensor weights;  // before each mini-batch and after the last, [(N+1) R,K+1,K]
  at::Tensor steps;    // learning_rate_j U_j, [N R,M,K]
};

// Differentiable once, by hand.
TttLearned Learn(const TttLearner& learner, double eps);

// U of z: x = (z - mean) / sigma, error = weight (weight x + bias - target),
// U = (error - mean(error) - x mean(error x)) / sigma.
struct LossGradient {
  at::Tensor normed;     // x
  at::Tensor inv_sigma;  // [...,1]
  at::Tensor error;
  at::Tensor value;  // U
};
LossGradient GradientOfLoss(const at::Tensor& z, const at::Tensor& target, const at::Tensor& weight,
                            const at::Tensor& bias, double eps);

// |weight x + bias - target|^2 / 2, without the last axis.
at::Tensor Loss(const LossGradient& gradient, const at::Tensor& target, const at::Tensor& weight,
                const at::Tensor& bias);

}  // namespace mixerbench::kernels::ttt
