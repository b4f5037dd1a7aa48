// Mixture of memories: recurrences in memories among which a router chooses. Maths and sources:
// mom.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "models/blocks/linear.h"
#include "models/blocks/norms.h"
#include "models/blocks/routed_states.h"

namespace mixerbench::models {

namespace mom {

enum class Memory { kGatedDeltaNet, kGla };

}  // namespace mom

struct MomConfig {
  mom::Memory memory = mom::Memory::kGatedDeltaNet;
  std::int64_t num_heads = 2;
  double expand_k = 1;  // key channels per channel of d_model
  double expand_v = 1;  // value channels of a head per key channel
  std::int64_t num_memories = 4;
  std::int64_t top_k = 2;               // memories that a token writes and reads
  bool use_shared = true;               // one more memory, of all tokens
  bool single_kv_proj = false;          // the routed memories have one projection of k, v and gates
  std::int64_t conv_size = 4;           // of q, k, v; 0: no convolution
  bool allow_neg_eigval = false;        // of kGatedDeltaNet
  std::int64_t gate_low_rank_dim = 16;  // of kGla, as the next
  double gate_logit_normalizer = 16;    // log decay = log sigmoid(z) / this
  RoutedForm implementation = RoutedForm::kVarlen;
  OutputGate output_gate = OutputGate::kSilu;
  double norm_eps = 1e-5;
  LinearInit init = LinearInit::kBackbone;  // of all projections
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::mom::Memory> {
  using E = mixerbench::models::mom::Memory;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kGatedDeltaNet, "gated_delta_net"}, {E::kGla, "gla"}};
};
