// A different mixer in each layer. See hybrid.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/value.h"

namespace mixerbench::models {

struct HybridConfig {
  // Layer i uses pattern[i mod size].
  std::vector<Value> pattern = {Object{{"name", "base_conv"}}, Object{{"name", "attention"}}};
};

}  // namespace mixerbench::models
