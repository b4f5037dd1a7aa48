// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/dropout.h"

#include <ATen/TensorOperators.h>

#include "kernels/fused/dropout.h"

namespace mixerbench::models {

at::Tensor Dropout(const at::Tensor& x, double p, const std::optional<at::Generator>& generator) {
  if (!generator || p == 0) return x;
  const at::Tensor seed = kernels::fused::DrawDropoutSeed(*generator, x.device());
  const at::Tensor mask = kernels::fused::DropoutMask(x.sizes(), p, seed);
  return x * mask.to(x.scalar_type()).div_(kernels::fused::KeptShare(p));
}

}  // namespace mixerbench::models
