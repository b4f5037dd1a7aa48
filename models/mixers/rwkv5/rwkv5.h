// RWKV-5 (Eagle). Maths and sources: rwkv5.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mixerbench::models {

struct Rwkv5Config {
  std::int64_t num_heads = 4;
  double norm_eps = 1e-5;  // of the norm of a head's output divided by 8
  bool by_depth = true;    // starts by the layer's depth; false: as the only layer
};

}  // namespace mixerbench::models
