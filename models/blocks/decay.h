// Parameters of decays, and decays of them; for delta rules kernels/gates/gates.h computes these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "models/parameters.h"

namespace mixerbench::models {

// g = -exp(A_log) softplus(logits + dt_bias), one of each per channel of the logits.
struct SoftplusDecay {
  // A ~ U(1e-4, 16) (0 would give A_log = -inf); softplus(dt_bias) log-uniform in [1e-3, 0.1].
  SoftplusDecay(const ParameterScope& scope, std::int64_t channels);

  // g [...,channels] of logits, float32 at least.
  at::Tensor operator()(const at::Tensor& logits) const;

  at::Tensor A_log;
  at::Tensor dt_bias;
};

}  // namespace mixerbench::models
