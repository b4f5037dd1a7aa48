// Introspection: what a mixer did inside one call (spec: mixers_linear_attention.md section 0.9).
// Off unless a caller passes a Taps object; recording never changes the numerics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::models {

class Taps {
 public:
  // Stores an fp32 copy under `prefix + name`; names: write_gate [B,T,H], log_decay [B,T,H] or
  // [B,T,H,K], state [B,H,K,V], ...
  void Record(const std::string& name, const at::Tensor& value);

  const kernels::NamedTensors& records() const { return records_; }

  // Prepended to recorded names; backbones set it to "layers.<i>." before each mixer.
  std::string prefix;

  // Positions [B,T] (bool) whose write gate is replaced by its mean over the sequence, per head,
  // after the activation and before the recurrence, without gradient.
  std::optional<at::Tensor> override_write_gate;

  // `gate` [B,T,H] with the override applied; `gate` itself when there is none.
  at::Tensor OverriddenWriteGate(const at::Tensor& gate) const;

 private:
  kernels::NamedTensors records_;
};

}  // namespace mixerbench::models
