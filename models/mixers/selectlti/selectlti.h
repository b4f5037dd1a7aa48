// SelectLTI: input-dependent gains around a time-invariant mixer. Maths and sources: selectlti.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/value.h"

namespace mixerbench::models {

enum class SelectLtiActivation { kNone, kSilu };

struct SelectLtiConfig {
  Value core = Object{{"name", "s5"}, {"d_state", 32}, {"blocks", 1}, {"activation", "none"}};
  bool in = true;               // gains on the core's input
  bool out = true;              // gains on its output
  std::int64_t bottleneck = 8;  // width of the gains' hidden layer
  bool unit_bias = false;       // the gains' last bias starts at 1
  SelectLtiActivation activation = SelectLtiActivation::kSilu;
  bool activation_first = false;  // before the gains on the output
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::SelectLtiActivation> {
  using E = mixerbench::models::SelectLtiActivation;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kNone, "none"},
                                                              {E::kSilu, "silu"}};
};
