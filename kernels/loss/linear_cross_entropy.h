// The head of a model and its loss in one: softmax cross-entropy of a linear layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/linear/linear.h"
#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

// hidden [N,D], weight [V,D], bias [V] or undefined, targets [N] int64 in 0..V-1 (negative: the row
// does not count) -> scalar, float32 at least: the mean over the rows that count of
// -log softmax(hidden weight^T + bias)[target], in nats.
// Linear and SoftmaxCrossEntropy, and that is what runs unless all of this holds: a GPU of compute
// capability 9.0, bf16 hidden states, float32 weights, no bias, a gradient is needed, and sizes
// that LinearCrossEntropySupports (linear_cross_entropy_cuda.h). Then no logits are stored: they
// stay in float32 between the product and the softmax, and the softmax is rounded to bf16 for the
// products of the gradients. Memory: (N parts D) float32 with 4 to 8 parts for N up to 4096.
// `narrow`: as Linear takes it. `row_weights` [N], float32 at least, without gradient: each row's
// term times its weight, over the same number of rows; by ATen operations on either path.
// Errors: std::logic_error when shapes disagree.
at::Tensor LinearCrossEntropy(const at::Tensor& hidden, const at::Tensor& weight,
                              const at::Tensor& bias, const at::Tensor& targets,
                              ExecutionPath path = ExecutionPath::kFast,
                              const ShadowWeights& narrow = {}, const at::Tensor& row_weights = {});

}  // namespace mixerbench::kernels
