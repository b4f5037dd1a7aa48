// SPDX-License-Identifier: Apache-2.0
#include "models/taps.h"

#include <ATen/ops/where.h>

#include "base/check.h"

namespace mixerbench::models {

TapScope TapScope::Child(std::string_view name) const {
  TapScope child = *this;
  if (recorder_ != nullptr) child.prefix_ += std::string(name) + ".";
  return child;
}

bool TapScope::Wants(std::string_view name) const {
  return recorder_ != nullptr &&
         (!recorder_->wants || recorder_->wants(prefix_ + std::string(name)));
}

void TapScope::Record(std::string_view name, const at::Tensor& value) const {
  if (!Wants(name)) return;
  recorder_->records[prefix_ + std::string(name)] =
      value.detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

bool TapScope::Overrides() const {
  return recorder_ != nullptr && recorder_->override_write_gate.has_value();
}

at::Tensor TapScope::Overridden(const at::Tensor& gate) const {
  if (!Overrides()) return gate;
  const at::Tensor& mask = *recorder_->override_write_gate;
  Require(mask.dim() == 2 && mask.size(0) == gate.size(0) && mask.size(1) == gate.size(1),
          "the override mask is [B,T]");
  recorder_->has_overridden = true;
  return at::where(mask.unsqueeze(-1), gate.detach().mean(1, /*keepdim=*/true), gate);
}

at::Tensor TapScope::WriteGate(const at::Tensor& gate) const {
  at::Tensor used = Overridden(gate);
  Record("write_gate", used);
  return used;
}

}  // namespace mixerbench::models
