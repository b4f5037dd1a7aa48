// Softmax cross-entropy over rows of logits, with the prediction taken on the way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

struct CrossEntropyResult {
  at::Tensor loss;       // scalar, float32 at least: mean of nll over the rows that count
  at::Tensor nll;        // [N], nats, 0 where a row does not count; no gradient
  at::Tensor predicted;  // [N] int64, arg-max, the lowest id of equal ones
};

// logits [N,V], any floating dtype; targets [N] int64 in 0..V-1, negative: the row does not count.
// Statistics in float32 at least. On a GPU the gradient is formed in the forward pass, when it is
// needed, in the dtype of the logits: no float32 copy of them exists.
// Cost: on a GPU reads the logits twice (once from the cache) and writes their gradient once.
// Errors: std::logic_error when shapes disagree, and for a second backward pass through one result.
CrossEntropyResult SoftmaxCrossEntropy(const at::Tensor& logits, const at::Tensor& targets,
                                       ExecutionPath path = ExecutionPath::kFast);

// The same by ATen operations.
CrossEntropyResult ReferenceSoftmaxCrossEntropy(const at::Tensor& logits,
                                                const at::Tensor& targets);

// The sum of weights [N] times nll over the number of rows that count, by ATen operations.
at::Tensor WeightedCrossEntropy(const at::Tensor& logits, const at::Tensor& targets,
                                const at::Tensor& weights);

}  // namespace mixerbench::kernels
