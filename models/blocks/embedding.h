// The start of a backbone: embedded tokens with positions and dropout.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "models/backbone.h"

namespace mixerbench::models {

// tokens [B,T], table [V,D], positions [T,D] or undefined -> [B,T,D] in
// options.compute_dtype. The dropout acts in training, when options.generator is set.
at::Tensor Embed(const at::Tensor& table, const at::Tensor& tokens, const at::Tensor& positions,
                 double dropout, const BackboneOptions& options);

}  // namespace mixerbench::models
