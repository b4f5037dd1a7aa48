// The write-gate tap of mixers that have no write gate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "models/taps.h"

namespace mixerbench::models {

// Records write_gate = |k_t| |v_t| per head and returns the keys to use: `k` itself, or, where the
// write gate is overridden, k scaled to the mean norm of the sequence. k [B,T,H,K], v [B,T,H,V].
at::Tensor TapWriteStrength(const TapScope& taps, const at::Tensor& k, const at::Tensor& v);

// Records `state` [B,H,K,V] and `state_norm` [B,H], the state's Frobenius norm.
void TapState(const TapScope& taps, const at::Tensor& state);

}  // namespace mixerbench::models
