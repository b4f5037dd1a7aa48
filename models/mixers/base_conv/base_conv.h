// BaseConv: a gated short or long convolution. Maths and sources: base_conv.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/fields.h"

namespace mixerbench::models {

// Of a convolution as long as the input.
enum class LongFilter {
  kImplicit,  // a small network makes it of the position
  kExplicit,  // one parameter for each channel and position
};

struct BaseConvConfig {
  // Layer i uses kernel_sizes[i mod size]; -1 is a convolution as long as the input.
  std::vector<std::int64_t> kernel_sizes = {3, -1};
  LongFilter long_filter = LongFilter::kImplicit;
  bool use_act = false;     // silu on both factors
  std::int64_t expand = 0;  // 0: W x gates conv(x), with a residual; else channels per channel of
                            // d_model of a projection whose halves are convolved and gate
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::LongFilter> {
  using E = mixerbench::models::LongFilter;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kImplicit, "implicit"},
                                                              {E::kExplicit, "explicit"}};
};
