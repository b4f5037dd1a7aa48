// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/dropout.h"

#include <ATen/ops/empty_like.h>

namespace mixerbench::models {

at::Tensor Dropout(const at::Tensor& x, double p, const std::optional<at::Generator>& generator) {
  if (!generator || p == 0) return x;
  const at::Tensor kept = at::empty_like(x, at::TensorOptions().requires_grad(false));
  return x * kept.bernoulli_(1 - p, generator).div_(1 - p);
}

}  // namespace mixerbench::models
