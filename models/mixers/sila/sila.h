// SILA. Maths and sources: sila.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/norms.h"

namespace mixerbench::models {

struct SilaConfig {
  std::int64_t num_heads = 2;
  double expand_k = 1;         // key channels per channel of d_model
  double expand_v = 1;         // value channels per channel of d_model
  std::int64_t conv_size = 4;  // of q, k, v; 0: no convolution
  bool memory_gates = true;    // the gates depend on what the memory recalls
  bool cross_head = false;     // of all heads
  double memory_init_std = 0;  // of these weights; 0: they start as ordinary gates
  bool gate_bias = false;      // of all three gates, starting at 0
  bool decayed_erase = false;  // erase what is recalled after the decay
  bool learn_initial_memory = false;
  OutputGate output_gate = OutputGate::kSilu;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
