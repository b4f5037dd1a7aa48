// Introspection: what a mixer did inside one call.
// Off unless a caller passes a recorder; recording never changes the numerics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::models {

// Belongs to who looks.
struct TapRecorder {
  // Which paths to record ("layers.1.inner.write_gate"); empty: all.
  std::function<bool(std::string_view path)> wants;

  // Positions [B,T] (bool) whose write gate is replaced by its mean over the sequence, per head,
  // after the activation and before the recurrence, without gradient.
  std::optional<at::Tensor> override_write_gate;
  bool has_overridden = false;  // whether there was a gate to replace

  // float32 copies by path; names: write_gate [B,T,H], log_decay [B,T,H] or [B,T,H,K], state
  // [B,H,K,V], ...; what is the same for all samples has a single axis.
  kernels::NamedTensors records;
};

// A recorder and where in the model we are: a value, nested like ParameterScope. Off by default.
class TapScope {
 public:
  TapScope() = default;
  explicit TapScope(TapRecorder& recorder) : recorder_(&recorder) {}

  explicit operator bool() const { return recorder_ != nullptr; }

  TapScope Child(std::string_view name) const;

  // Whether Record(name) would keep anything: for values that cost something to form.
  bool Wants(std::string_view name) const;
  void Record(std::string_view name, const at::Tensor& value) const;

  // Whether somebody replaces write gates.
  bool Overrides() const;
  // `gate` [B,T,H] with the override applied; `gate` itself when there is none.
  at::Tensor Overridden(const at::Tensor& gate) const;
  // Overridden(gate), recorded as write_gate: what is to be used instead.
  at::Tensor WriteGate(const at::Tensor& gate) const;

 private:
  TapRecorder* recorder_ = nullptr;
  std::string prefix_;
};

}  // namespace mixerbench::models
