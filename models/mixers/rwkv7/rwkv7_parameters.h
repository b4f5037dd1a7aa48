// Parameters of RWKV-7 and how its authors start them. rwkv7.md has the formulas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "models/mixer.h"
#include "models/mixers/rwkv7/rwkv7.h"
#include "models/parameters.h"

namespace mixerbench::models::rwkv7 {

// 32 times the nearest whole number to `dim` / 32, ties to even, at least 32.
std::int64_t RoundedRank(double dim);

// `config` with the formulas' values in place of zeros.
Rwkv7Config WithRanks(const Rwkv7Config& config, std::int64_t d_model);

// Values of each of the d channels at the start, float64 on the CPU.
struct StartValues {
  at::Tensor token_mix;   // [6,d] of r, w, k, v, a, g
  at::Tensor decay_bias;  // [d]
  at::Tensor a_bias;
  at::Tensor v_bias;
  at::Tensor k_k;
  at::Tensor k_a;
  double norm_weight = 1;
};
StartValues StartValuesOf(const MixerContext& context, std::int64_t num_heads);

// A random matrix [rows,cols] whose shorter axis is orthogonal, times `gain`.
at::Tensor DrawOrthogonal(const ParameterScope& scope, std::string_view name, std::int64_t rows,
                          std::int64_t cols, double gain);

// A square projection that starts orthogonal times `gain`, unless `init` or the policy of the
// backbone (zoology's; not fla's, whose models pass over these layers) has a start of its own.
at::Tensor AddProjection(const ParameterScope& scope, std::string_view name, std::int64_t width,
                         double gain, Rwkv7Init init);

// y = B act(A x) + bias.
class LowRankMap {
 public:
  enum class Inner { kIdentity, kTanh, kSigmoid };

  // Parameters `name`_down [rank,d], zeros, and `name`_up [d,rank], orthogonal times 0.1, or both
  // as linear layers start; `name`_bias [d] of those values, undefined: none.
  LowRankMap(const ParameterScope& scope, std::string_view name, std::int64_t d_model,
             std::int64_t rank, Inner inner, const at::Tensor& bias, Rwkv7Init init);

  // [...,d] -> [...,d]; with a bias in float32 at least.
  at::Tensor operator()(const at::Tensor& x, kernels::ExecutionPath path) const;

 private:
  Inner inner_;
  at::Tensor down_;
  at::Tensor up_;
  at::Tensor bias_;
};

}  // namespace mixerbench::models::rwkv7
