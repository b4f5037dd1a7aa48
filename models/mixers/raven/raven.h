// Raven: routing slot memories. Maths and sources: raven.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "models/blocks/norms.h"
#include "models/mixers/raven/slot_router.h"

namespace mixerbench::models {

namespace raven {

enum class ForgetGate {
  kHead,  // one of a head, that of Gated DeltaNet
  kSlot,  // one of each slot, that of GSA
};

}  // namespace raven

struct RavenConfig {
  std::int64_t num_heads = 4;
  std::int64_t num_kv_heads = 0;  // of keys, values, slots and their gates; 0: num_heads
  double expand_k = 1;            // key channels per channel of d_model
  double expand_v = 1;
  std::int64_t num_slots = 64;
  std::int64_t top_k = 16;  // slots that a token writes
  raven::SlotScore router_score = raven::SlotScore::kSigmoid;
  bool router_mlp = false;      // two projections with GELU instead of one
  bool selection_bias = false;  // beside the scores where slots are chosen, led by their load
  bool renormalise = true;      // the weights of a token's slots add up to 1 / alpha
  bool gumbel_noise = true;     // on the router's logits, in training
  double alpha = 1;             // divides the routing weights
  raven::ForgetGate forget_gate = raven::ForgetGate::kHead;
  double gate_logit_normalizer = 4;  // of kSlot: log sigmoid(logit) / this
  std::int64_t conv_size = 0;        // of q, k, v; 0: no convolution
  bool use_qk_norm = true;
  OutputGate output_gate = OutputGate::kSilu;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::raven::ForgetGate> {
  using E = mixerbench::models::raven::ForgetGate;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kHead, "head"},
                                                              {E::kSlot, "slot"}};
};
