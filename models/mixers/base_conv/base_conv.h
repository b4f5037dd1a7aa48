// BaseConv: a gated short or implicit long convolution. Maths and sources: base_conv.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace mixerbench::models {

struct BaseConvConfig {
  // Layer i uses kernel_sizes[i mod size]; -1 is an implicit convolution as long as the input.
  std::vector<std::int64_t> kernel_sizes = {3, -1};
  bool use_act = false;  // silu on both factors
};

}  // namespace mixerbench::models
