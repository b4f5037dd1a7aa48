// K7: TTT-linear, a linear layer that is trained on the sequence, mini-batch by mini-batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels {

// What a learner carries: its parameters at the start of the mini-batch that the next token belongs
// to, and the tokens of it that were seen, U of them, fewer than a mini-batch. fp32, or fp64 for
// fp64 inputs.
struct TttState {
  at::Tensor weight;  // [B,H,K,K]
  at::Tensor bias;    // [B,H,K]
  at::Tensor k = {};  // [B,U,H,K]
  at::Tensor v = {};
  at::Tensor learning_rate = {};  // [B,U,H]
};

// B batch, T tokens, H heads, K channels per head, M tokens in a mini-batch. q, k and v share one
// floating dtype; all tensors share one device. Any strides.
struct TttArgs {
  at::Tensor q, k, v;        // [B,T,H,K]
  at::Tensor learning_rate;  // [B,T,H]: of the token's gradient
  at::Tensor token_scale =
      {};  // [M]: what a token at this place of its mini-batch sees of the steps
  at::Tensor norm_weight = {};  // [H,K], of the norm in the loss
  at::Tensor norm_bias = {};    // [H,K]
  // The weight and bias are required; k, v, learning_rate may be undefined: a mini-batch starts.
  TttState initial_state = {};
  double norm_eps = 1e-6;
  bool wants_loss = false;
  double scale = 0;  // multiplies q; 0 means K^-0.5
};

struct TttResult {
  at::Tensor o;  // [B,T,H,K], dtype of v
  TttState final_state;
  // Without gradients: the norm of the gradient that the token contributes, [B,T,H], in the dtype
  // of the state.
  at::Tensor surprise;
  // The same of wants_loss: |norm(z) - (v - k)|^2 / 2 of the token before its mini-batch steps.
  at::Tensor loss = {};
};

// With W_0, b_0 at the start of the mini-batch, and j before i in it or i itself:
//   U_j = gradient at z = k_j W_0 + b_0 of |norm(z) - (v_j - k_j)|^2 / 2
//   W_i = W_0 - token_scale_i sum_{j<=i} learning_rate_j k_j U_j^T,  b_i likewise without k_j
//   o_i = scale q_i W_i + b_i
// The next mini-batch starts from the last W_i and b_i of this one.
// Cost:   O(B T H K^2) time.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 2407.04620.
TttResult ReferenceTtt(const TttArgs& args);

// The same mini-batch by mini-batch (dual form). Derivation in ttt.md.
// Cost:   6 K^2 + 6 M K FLOPs per token and head forward.
TttResult MiniBatchTtt(const TttArgs& args);

// What mixers call.
TttResult Ttt(const TttArgs& args, ExecutionPath path);

}  // namespace mixerbench::kernels
