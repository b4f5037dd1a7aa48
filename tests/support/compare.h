// Comparison of tensors by relative error, the one measure that every numerical test uses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace mixerbench::testing {

// ||actual - expected|| / ||expected||, computed in float64 over all elements; ||actual|| when
// `expected` is zero everywhere. Infinite when the shapes differ or a value is not finite, so that
// no comparison with a tolerance can pass by accident.
double RelativeError(const at::Tensor& actual, const at::Tensor& expected);

// True when dtype, shape and every bit agree; unlike at::equal, NaN equals the same NaN.
bool BitwiseEqual(const at::Tensor& a, const at::Tensor& b);

}  // namespace mixerbench::testing
