// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/erase_tap.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros_like.h>

namespace mixerbench::models {

at::Tensor ErasedNorm(const at::Tensor& b, const at::Tensor& initial_state,
                      const std::function<at::Tensor(const at::Tensor& q)>& read) {
  const at::NoGradGuard no_grad;
  const std::int64_t num_later = b.size(1) - 1;
  const at::Tensor first = b.narrow(1, 0, 1);
  // The state before a token is the one after the token before it.
  const at::Tensor later =
      read(at::cat({b.narrow(1, 1, num_later), at::zeros_like(first)}, 1));  // [B,T,H,V]
  const at::Tensor at_start = initial_state.defined() ? first.to(initial_state.scalar_type())
                                                            .transpose(1, 2)
                                                            .matmul(initial_state)
                                                            .transpose(1, 2)
                                                      : at::zeros_like(later.narrow(1, 0, 1));
  const at::Tensor recalled =
      at::cat({at_start.to(later.scalar_type()), later.narrow(1, 0, num_later)}, 1);
  return at::linalg_vector_norm(recalled, 2, {-1});
}

void TapErase(const TapScope& taps, const at::Tensor& b, const at::Tensor& initial_state,
              const std::function<at::Tensor(const at::Tensor& q)>& read) {
  if (taps.Wants(kEraseTap)) taps.Record(kEraseTap, ErasedNorm(b, initial_state, read));
}

}  // namespace mixerbench::models
