// Inverted dropout that draws from an explicit generator and from nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/runtime/seed_generator.h"

namespace mixerbench::models {

// x with each element zeroed with probability p and the others divided by 1-p; `x` itself without a
// generator (evaluation) or with p = 0.
at::Tensor Dropout(const at::Tensor& x, double p,
                   const std::optional<kernels::SeedGenerator>& generator);

}  // namespace mixerbench::models
