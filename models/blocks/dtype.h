// Precision policy of the blocks: matrix products run in the dtype of the activations, while gates,
// decays and statistics never go below float32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace mixerbench::models {

// `x` itself when it already is float32 or float64, else a float32 copy.
inline at::Tensor AtLeastFloat(const at::Tensor& x) {
  return x.to(c10::promoteTypes(x.scalar_type(), at::kFloat));
}

}  // namespace mixerbench::models
