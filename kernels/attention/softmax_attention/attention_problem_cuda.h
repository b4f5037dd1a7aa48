// From tensors to AttentionProblem, for all queries and for chosen ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "kernels/attention/softmax_attention/prepare.h"
#include "kernels/attention/softmax_attention/softmax_attention_kernels.h"

namespace mixerbench::kernels::softmax_attention {

// Log denominators or sums of products of q [B,R,H,D]: [B,H,R], fp32, not set.
at::Tensor EmptyStatistics(const at::Tensor& q);

// What forward and backward have in common; k and v [B,T,H,D] decide the sizes. An undefined seed:
// no dropout. The tensors must outlive the problem.
AttentionProblem MakeProblem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& o, const at::Tensor& log_denominators, double scale,
                             double dropout_p, const at::Tensor& dropout_seed);

// Why there is no device code for these tensors, whatever the number of queries; empty when there
// is.
std::string HeadRefusal(const SoftmaxAttentionArgs& args, const Prepared& sizes);

// The seed of this call's dropout, nullopt without: apply() of an autograd function asks every
// tensor for its device, so none may be undefined.
std::optional<at::Tensor> OptionalDropoutSeed(const SoftmaxAttentionArgs& args);

}  // namespace mixerbench::kernels::softmax_attention
