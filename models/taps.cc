// SPDX-License-Identifier: Apache-2.0
#include "models/taps.h"

#include <ATen/ops/where.h>

#include "base/check.h"

namespace mixerbench::models {

void Taps::Record(const std::string& name, const at::Tensor& value) {
  records_[prefix + name] = value.detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor Taps::OverriddenWriteGate(const at::Tensor& gate) const {
  if (!override_write_gate) return gate;
  const at::Tensor& mask = *override_write_gate;
  Require(mask.dim() == 2 && mask.size(0) == gate.size(0) && mask.size(1) == gate.size(1),
          "the override mask is [B,T]");
  return at::where(mask.unsqueeze(-1), gate.detach().mean(1, /*keepdim=*/true), gate);
}

}  // namespace mixerbench::models
