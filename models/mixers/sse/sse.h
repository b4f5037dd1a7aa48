// Sparse state expansion with the transition of gated linear attention. Maths and sources: sse.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/fields.h"
#include "models/blocks/norms.h"
#include "models/blocks/state_expansion.h"

namespace mixerbench::models {

enum class SseActivation { kSilu, kSoftmax };

struct SseConfig {
  std::int64_t num_heads = 2;
  double expand_k = 1;  // key channels per channel of d_model
  double expand_v = 1;
  std::int64_t num_partitions = 4;
  std::int64_t top_k = 1;        // partitions that a token writes
  std::int64_t num_readers = 0;  // partitions that it reads; 0: top_k
  bool use_shared = true;        // one more partition, of all tokens
  std::int64_t lora_rank = 0;    // 0: value channels of a head
  std::int64_t gate_low_rank_dim = 16;
  double gate_logit_normalizer = 16;  // log decay = log sigmoid(z) / this
  std::int64_t conv_size = 0;         // of q and k of the shared partition; 0: no convolution
  SseActivation q_activation = SseActivation::kSilu;
  SseActivation k_activation = SseActivation::kSoftmax;
  RouterWrite write_gate = RouterWrite::kValue;
  bool read_gate = true;
  RoutedForm implementation = RoutedForm::kVarlen;
  OutputGate output_gate = OutputGate::kSilu;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::SseActivation> {
  using E = mixerbench::models::SseActivation;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kSilu, "silu"},
                                                              {E::kSoftmax, "softmax"}};
};
