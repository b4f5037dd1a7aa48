// Mixers side by side in one layer. Maths and sources: parallel.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/value.h"

namespace mixerbench::models {

struct ParallelConfig {
  std::vector<Value> branches = {Object{{"name", "attention"}}, Object{{"name", "gla"}}};
  double norm_eps = 1e-5;
};

}  // namespace mixerbench::models
