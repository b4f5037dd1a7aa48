// DeltaNet. Maths and sources: delta_net.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "models/blocks/feature_map.h"

namespace mixerbench::models {

enum class QkScaling {
  kL2,   // x / |x|
  kSum,  // x / sum over channels: for activations that are not negative
};

struct DeltaNetConfig {
  std::int64_t num_heads = 2;
  double expand_k = 1;  // key channels per channel of d_model
  double expand_v = 1;
  std::int64_t conv_size = 4;  // of q, k, v; 0: no convolution
  FeatureMapKind qk_activation = FeatureMapKind::kSilu;
  QkScaling qk_norm = QkScaling::kL2;
  bool allow_neg_eigval = false;
  bool use_output_gate = false;
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::QkScaling> {
  using E = mixerbench::models::QkScaling;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kL2, "l2"}, {E::kSum, "sum"}};
};
