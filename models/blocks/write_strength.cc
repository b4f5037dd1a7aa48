// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/write_strength.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>

#include "models/blocks/dtype.h"

namespace mixerbench::models {

namespace {

constexpr double kTiny = 1e-12;  // what is zero stays zero

}  // namespace

at::Tensor TapWriteStrength(const TapScope& taps, const at::Tensor& k, const at::Tensor& v) {
  const at::Tensor norm = AtLeastFloat(k.detach()).norm(2, -1);  // [B,T,H]
  const at::Tensor target = taps.Overridden(norm);
  taps.Record("write_gate", target * AtLeastFloat(v.detach()).norm(2, -1));
  if (!taps.Overrides()) return k;
  return k * (target / norm.clamp_min(kTiny)).unsqueeze(-1).to(k.scalar_type());
}

at::Tensor TapMeanWriteGate(const TapScope& taps, const at::Tensor& gate) {
  if (!taps) return gate;
  const at::Tensor mean = gate.detach().mean(-1);  // [B,T,H]
  const at::Tensor target = taps.WriteGate(mean);
  if (!taps.Overrides()) return gate;
  return gate * (target / mean.clamp_min(kTiny)).unsqueeze(-1).to(gate.scalar_type());
}

void TapState(const TapScope& taps, const at::Tensor& state) {
  taps.Record("state", state);
  if (!taps.Wants("state_norm")) return;
  taps.Record("state_norm", at::linalg_vector_norm(state.detach(), 2, {-2, -1}));
}

}  // namespace mixerbench::models
