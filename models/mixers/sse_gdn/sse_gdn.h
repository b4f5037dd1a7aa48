// Sparse state expansion with the transition of Gated DeltaNet. Maths and sources: sse_gdn.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/blocks/norms.h"
#include "models/blocks/state_expansion.h"

namespace mixerbench::models {

struct SseGdnConfig {
  std::int64_t num_heads = 2;    // of queries and keys
  std::int64_t num_v_heads = 0;  // 0: num_heads; a multiple of it
  double expand_k = 1;           // key channels per channel of d_model
  double expand_v = 1;           // value channels of a head per key channel
  std::int64_t num_partitions = 4;
  std::int64_t top_k = 1;        // partitions that a token writes
  std::int64_t num_readers = 0;  // partitions that it reads; 0: top_k
  bool use_shared = true;        // one more partition, of all tokens
  std::int64_t lora_rank = 0;    // 0: value channels of a head
  std::int64_t conv_size = 0;    // of q and k of the shared partition; 0: no convolution
  bool allow_neg_eigval = false;
  RouterWrite write_gate = RouterWrite::kValue;
  bool read_gate = true;
  RoutedForm implementation = RoutedForm::kVarlen;
  OutputGate output_gate = OutputGate::kSilu;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
