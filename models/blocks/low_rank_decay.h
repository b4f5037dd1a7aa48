// Log decays of every key channel from logits of low rank (KDA and its kin).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "models/blocks/linear.h"
#include "models/parameters.h"

namespace mixerbench::models {

// Throws ConfigError unless the bound is negative or, for none, 0.
void CheckMinLogDecay(double min_log_decay, const std::string& where);

class LowRankDecay {
 public:
  // Parameters `decay_proj.weight` [H K,rank], `A_log` [H] and `dt_bias` [H K]: softplus(dt_bias)
  // log-uniform in [1e-3, 0.1]; A ~ U(1, 16), with a bound A = 1.
  LowRankDecay(const ParameterScope& scope, std::int64_t rank, std::int64_t num_heads,
               std::int64_t head_k_dim, double min_log_decay);

  // z = decay_proj(low_rank) + dt_bias, low_rank [B,T,rank] -> [B,T,H,K], float32 at least:
  // -exp(A_log) softplus(z), or with a bound min_log_decay * sigmoid(exp(A_log) z).
  at::Tensor operator()(const at::Tensor& low_rank, kernels::ExecutionPath path) const;

 private:
  Linear decay_proj_;
  at::Tensor A_log_;
  at::Tensor dt_bias_;
  double min_log_decay_;
};

}  // namespace mixerbench::models
