// TTT-linear. Maths and sources: ttt_linear.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct TttLinearConfig {
  std::int64_t num_heads = 2;
  std::int64_t mini_batch_size = 16;  // tokens whose gradients are taken at one layer
  double base_lr = 1;                 // learning rates are below base_lr / head_dim
  std::int64_t conv_size = 0;         // of q and k, which then share a projection; 0: they do not
  bool use_output_gate = false;
  double norm_eps = 1e-6;
};

}  // namespace mixerbench::models
