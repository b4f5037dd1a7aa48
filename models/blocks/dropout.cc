// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/dropout.h"

#include <ATen/TensorOperators.h>

#include "kernels/fused/dropout.h"

namespace mixerbench::models {

at::Tensor Dropout(const at::Tensor& x, double p, const std::optional<at::Generator>& generator) {
  if (!generator || p == 0) return x;
  const at::Tensor seed = kernels::fused::DrawDropoutSeed(*generator, x.device());
  return x * kernels::fused::DropoutMask(x.sizes(), p, seed).to(x.scalar_type()).div_(1 - p);
}

}  // namespace mixerbench::models
