// The tap of what delta rules erase.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "models/taps.h"

namespace mixerbench::models {

inline constexpr char kEraseTap[] = "erase";

// [B,T,H], without gradient: the norm of what b_t [B,T,H,K] reads of the state before token t.
// `read` runs the recurrence with other queries [B,T,H,K], not scaled, and gives what they read
// after their token [B,T,H,V]; initial_state [B,H,K,V]; undefined: zeros.
at::Tensor ErasedNorm(const at::Tensor& b, const at::Tensor& initial_state,
                      const std::function<at::Tensor(const at::Tensor& q)>& read);

// Records it as erase, where that is wanted.
void TapErase(const TapScope& taps, const at::Tensor& b, const at::Tensor& initial_state,
              const std::function<at::Tensor(const at::Tensor& q)>& read);

}  // namespace mixerbench::models
