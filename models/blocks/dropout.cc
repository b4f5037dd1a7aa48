// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/dropout.h"

#include <ATen/TensorOperators.h>

#include "kernels/noise/dropout.h"

namespace mixerbench::models {

at::Tensor Dropout(const at::Tensor& x, double p,
                   const std::optional<kernels::SeedGenerator>& generator) {
  if (!generator || p == 0) return x;
  const at::Tensor mask = kernels::DropoutMask(x.sizes(), p, generator->Next(x.device()));
  return x * mask.to(x.scalar_type()).div_(kernels::KeptShare(p));
}

}  // namespace mixerbench::models
