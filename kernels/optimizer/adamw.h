// AdamW over many tensors at once, with rate and step count on the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

// One shape and device for all, one dtype for the first four.
struct AdamWTensor {
  at::Tensor parameter;
  at::Tensor gradient = {};
  at::Tensor first_moment = {};
  at::Tensor second_moment = {};
  double weight_decay = 0;
  double rate_scale = 1;   // multiplies the learning rate
  at::Tensor narrow = {};  // set to the new parameter, rounded to bf16; undefined: no such copy
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double grad_clip = 0;  // global norm of all gradients; 0: off
};

// Updates parameters and moments in place (Loshchilov and Hutter, arXiv 1711.05101):
//   g <- g min(1, grad_clip / (|all g| + 1e-6));  p <- p (1 - lr weight_decay), lr that of the
//   tensor
//   m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2
//   p <- p - lr / (1 - beta1^step) m / ((v / (1 - beta2^step))^1/2 + eps)
// learning_rate, step: float32 scalars on the tensors' device; step counts from 1. The fast path on
// a GPU takes dense float32 tensors: one launch for 48 tensors, two more with clipping. Cost: reads
// four and writes three times the parameters' bytes, and half of them for copies in bf16.
void AdamWStep(const std::vector<AdamWTensor>& tensors, const at::Tensor& learning_rate,
               const at::Tensor& step, const AdamWOptions& options,
               ExecutionPath path = ExecutionPath::kFast);

}  // namespace mixerbench::kernels
