// Titans with a linear memory. Maths and sources: titans.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/norms.h"

namespace mixerbench::models {

struct TitansConfig {
  std::int64_t num_heads = 2;
  double expand_k = 1;                // key channels per channel of d_model
  double expand_v = 1;                // value channels per channel of d_model
  std::int64_t conv_size = 4;         // of q, k, v; 0: no convolution
  std::int64_t mini_batch_size = 16;  // tokens whose gradients are taken at one memory
  double max_step = 1;                // theta at most
  double forget_bias = -4;            // of the logit of alpha
  bool learn_initial_memory = false;
  OutputGate output_gate = OutputGate::kSilu;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
