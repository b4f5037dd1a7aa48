// Keeps what is not finite away from earlier tokens. A product masked by zeros multiplies them with
// what they hide, and 0 * NaN is NaN: functions with such products compute with zeros in the place
// of the first token that is not finite and of all later ones, whose results they mark.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>

#include <ATen/core/Tensor.h>

namespace mixerbench::kernels {

class NonFiniteTokens {
 public:
  // Inputs [B,T,H] or [B,T,H,D], heads by themselves; undefined ones are skipped. Log decays:
  // `log_decay`, of which -infinity is a legal one.
  NonFiniteTokens(std::initializer_list<at::Tensor> inputs, const at::Tensor& log_decay = {});

  // Whether there are any. On other devices than the CPU, where to ask is to wait, always.
  bool exist() const { return exist_; }

  // [B,T,H]: 0, and NaN from the first such token of a head on.
  const at::Tensor& mark() const { return mark_; }

  // An input with zeros where there is a mark; undefined stays so.
  at::Tensor Clear(const at::Tensor& x) const;

 private:
  at::Tensor mark_;
  bool exist_ = true;
};

}  // namespace mixerbench::kernels
