// Heads whose state is a matrix of key by value channels: sizes and what follows from them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "models/blocks/config_checks.h"
#include "models/blocks/short_convolution.h"
#include "models/mixer.h"

namespace mixerbench::models {

struct MatrixHeads {
  std::int64_t num_heads = 0;
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;

  std::int64_t key_dim() const { return num_heads * head_k_dim; }
  std::int64_t value_dim() const { return num_heads * head_v_dim; }

  // `state` [B,H,K,V] of zeros on the device of `weight`, in its dtype but float32 at least; with a
  // convolution its history, `conv`.
  State InitialState(std::int64_t batch_size, const at::Tensor& weight,
                     const std::optional<ShortConvolution>& conv = std::nullopt) const;
  StateSize state_size(const std::optional<ShortConvolution>& conv = std::nullopt) const;
};

// From the options num_heads, expand_k and expand_v. Throws ConfigError below `where`.
template <typename Config>
MatrixHeads MakeMatrixHeads(const Config& config, std::int64_t d_model, const std::string& where) {
  CheckRange(config.num_heads, 1, d_model, where, "num_heads");
  return {config.num_heads,
          ExpandedHeadDim(config.expand_k, d_model, config.num_heads, where, "expand_k"),
          ExpandedHeadDim(config.expand_v, d_model, config.num_heads, where, "expand_v")};
}

}  // namespace mixerbench::models
