// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/low_rank_decay.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>

#include "base/error.h"
#include "models/blocks/dtype.h"
#include "models/blocks/time_step.h"

namespace mixerbench::models {
namespace {

constexpr double kMinA = 1;
constexpr double kMaxA = 16;

at::Tensor AddRates(const ParameterScope& scope, std::int64_t num_heads, bool bounded) {
  if (bounded) return scope.AddSpecial("A_log", {num_heads}, Init::Constant(0));
  return scope.AddSpecial("A_log",
                          scope.Draw("A_log", {num_heads}, Init::Uniform(kMinA, kMaxA)).log());
}

}  // namespace

void CheckMinLogDecay(double min_log_decay, const std::string& where) {
  if (min_log_decay <= 0) return;
  throw ConfigError(where + "/min_log_decay", "must be negative, or 0 for no bound");
}

LowRankDecay::LowRankDecay(const ParameterScope& scope, std::int64_t rank, std::int64_t num_heads,
                           std::int64_t head_k_dim, double min_log_decay)
    : decay_proj_(scope.Child("decay_proj"), rank, num_heads * head_k_dim, /*bias=*/false),
      A_log_(AddRates(scope, num_heads, min_log_decay < 0)),
      dt_bias_(AddStepBias(scope, "dt_bias", num_heads * head_k_dim, TimeStepRange{})),
      min_log_decay_(min_log_decay) {}

at::Tensor LowRankDecay::operator()(const at::Tensor& low_rank, kernels::ExecutionPath path) const {
  const at::Tensor z = (AtLeastFloat(decay_proj_(low_rank, path)) + dt_bias_)
                           .unflatten(-1, {A_log_.size(0), -1});  // [B,T,H,K]
  const at::Tensor rate = at::exp(A_log_).unsqueeze(-1);
  return min_log_decay_ < 0 ? at::sigmoid(rate * z) * min_log_decay_ : -rate * at::softplus(z);
}

}  // namespace mixerbench::models
