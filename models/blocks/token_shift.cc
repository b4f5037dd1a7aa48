// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/token_shift.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

namespace mixerbench::models {

ShiftedTokens ShiftTokens(const at::Tensor& x, const at::Tensor& last) {
  const at::Tensor before =
      last.defined() ? last.to(x.scalar_type()).unsqueeze(1) : at::zeros_like(x.narrow(1, 0, 1));
  const at::Tensor previous = at::cat({before, x.narrow(1, 0, x.size(1) - 1)}, 1);
  return {.delta = previous - x, .last = x.select(1, x.size(1) - 1)};
}

}  // namespace mixerbench::models
