// From tensors to AttentionProblem, for all queries and for chosen ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "kernels/attention/softmax_attention/prepare.h"
#include "kernels/attention/softmax_attention/softmax_attention_kernels.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace mixerbench::kernels::softmax_attention {

// Which tensor of an autograd function the log decay is: after q, k and v.
constexpr int kLogDecay = 3;

// Log denominators or sums of products of q [B,R,H,D]: [B,H,R], fp32, not set.
at::Tensor EmptyStatistics(const at::Tensor& q);

// How scores become weights, the same forward and backward.
struct ScoreRule {
  double scale = 1;
  double dropout_p = 0;
  std::int64_t window = 0;  // as in SoftmaxAttentionArgs
};
ScoreRule RuleOf(const SoftmaxAttentionArgs& args, const Prepared& sizes);
void SaveRule(torch::autograd::AutogradContext* context, const ScoreRule& rule);
ScoreRule SavedRule(const torch::autograd::AutogradContext* context);

// What forward and backward have in common; k and v [B,T,H,D] decide the sizes. An undefined seed:
// no dropout; undefined sums [B,H,T,2]: no decay. The tensors must outlive the problem.
AttentionProblem MakeProblem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& o, const at::Tensor& log_denominators,
                             const ScoreRule& rule, const at::Tensor& dropout_seed,
                             const at::Tensor& decay_sums);

// Why there is no device code for these tensors, whatever the number of queries; empty when there
// is.
std::string DeviceCodeRefusal(const SoftmaxAttentionArgs& args, const Prepared& sizes);

// Of a call, nullopt where there is none: apply() of an autograd function asks every tensor for its
// device, so none may be undefined.
struct OptionalTensors {
  std::optional<at::Tensor> dropout_seed;  // drawn by this
  std::optional<at::Tensor> log_decay;     // [B,T,H], which gets a gradient
  std::optional<at::Tensor> decay_sums;    // AttentionProblem::decay_sums, without gradient
};
OptionalTensors MakeOptionalTensors(const SoftmaxAttentionArgs& args, const Prepared& sizes);

}  // namespace mixerbench::kernels::softmax_attention
