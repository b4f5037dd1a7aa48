// What RWKV-5 and RWKV-6 have alike: the projections of receptance, keys, values and the gate, and
// the norm of the heads' outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "models/blocks/linear.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/mixer.h"

namespace mixerbench::models {

// Heads of d_model / num_heads channels; the output is normed per head after a division by 8.
// Throws ConfigError for heads that do not divide d_model and an eps that is none.
MatrixLayout RwkvLayout(std::int64_t num_heads, double norm_eps, std::int64_t d_model,
                        const std::string& where);

class RwkvHeads {
 public:
  // Parameters `r_proj`, `k_proj`, `v_proj` and `g_proj` [D,D].
  RwkvHeads(std::int64_t num_heads, const MixerContext& context, const ParameterScope& scope);

  // Of the mixes [B,T,D] of tokens that each of them takes.
  MatrixColumns operator()(const at::Tensor& of_r, const at::Tensor& of_k, const at::Tensor& of_v,
                           const at::Tensor& of_gate, const MixerOptions& options) const;

  const at::Tensor& weight() const { return r_proj_.weight(); }

 private:
  std::int64_t num_heads_;
  Linear r_proj_;
  Linear k_proj_;
  Linear v_proj_;
  Linear g_proj_;
};

}  // namespace mixerbench::models
