// Kimi delta attention. Maths and sources: kda.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/norms.h"

namespace mixerbench::models {

struct KdaConfig {
  std::int64_t num_heads = 2;          // of queries and keys
  std::int64_t num_v_heads = 0;        // 0: num_heads; a multiple of it
  double expand_k = 1;                 // key channels per channel of d_model
  double expand_v = 1;                 // value channels of a head per key channel
  std::int64_t conv_size = 4;          // of q, k, v; 0: no convolution
  std::int64_t gate_low_rank_dim = 0;  // of decays and output gate; 0: value channels of a head
  double min_log_decay = 0;            // negative: decays of bounded form; 0: none
  bool allow_neg_eigval = false;
  OutputGate output_gate = OutputGate::kSigmoid;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
