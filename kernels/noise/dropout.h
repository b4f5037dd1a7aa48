// Masks of dropout as a pure function of a seed in device memory: a step that is captured in a
// graph draws a new seed with every replay, and the CPU and the GPU agree bit by bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace mixerbench::kernels {

// The probability that an element is kept: 1 - p, p rounded to 2^-16. What is kept is divided by
// it.
double KeptShare(double p);

// 0 with probability p (0 <= p < 1, rounded to 2^-16), else 1; element i is that of
// keyed_dropout.h. fp32 on the device of `seed`.
at::Tensor DropoutMask(at::IntArrayRef sizes, double p, const at::Tensor& seed);

}  // namespace mixerbench::kernels
