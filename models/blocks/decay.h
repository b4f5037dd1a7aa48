// Decay parameterisations: logits -> log decay <= 0, in float32 at least.
// Spec: mixers_linear_attention.md section 0.4.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "models/parameters.h"

namespace mixerbench::models {

// G1: g = log sigmoid(logits) / temperature.
at::Tensor LogSigmoidDecay(const at::Tensor& logits, double temperature);

// G2: g = -exp(A_log) softplus(logits + dt_bias), one A_log and dt_bias per channel of the logits.
class SoftplusDecay {
 public:
  // A ~ U(1e-4, 16) (0 would give A_log = -inf); softplus(dt_bias) log-uniform in [1e-3, 0.1].
  SoftplusDecay(const ParameterScope& scope, std::int64_t channels);
  at::Tensor operator()(const at::Tensor& logits) const;

 private:
  at::Tensor A_log_;
  at::Tensor dt_bias_;
};

}  // namespace mixerbench::models
