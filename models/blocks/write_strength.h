// Taps of write gates that are no scalar per head, and of states.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "models/taps.h"

namespace mixerbench::models {

// Records write_gate = |k_t| |v_t| per head and returns the keys to use: `k` itself, or, where the
// write gate is overridden, k scaled to the mean norm of the sequence. k [B,T,H,K], v [B,T,H,V].
at::Tensor TapWriteStrength(const TapScope& taps, const at::Tensor& k, const at::Tensor& v);

// Records write_gate, the mean of `gate` [B,T,H,D] over D, and returns the gate to use: `gate`
// itself, or, where the write gate is overridden, scaled to the mean of the sequence.
at::Tensor TapMeanWriteGate(const TapScope& taps, const at::Tensor& gate);

// Records `state` [B,H,K,V] and `state_norm` [B,H], the state's Frobenius norm.
void TapState(const TapScope& taps, const at::Tensor& state);

}  // namespace mixerbench::models
