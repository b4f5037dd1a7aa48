// The start of a backbone: embedded tokens with positions and dropout, and their norm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/embedding/embedding.h"
#include "models/backbone.h"

namespace mixerbench::models {

// tokens [B,T], table [V,D], positions [T,D] or undefined -> the stream [B,T,D] and its norm in
// options.compute_dtype, and the table for a head that shares it. The dropout acts in training,
// when options.generator is set.
kernels::EmbeddingResult Embed(const at::Tensor& table, const at::Tensor& tokens,
                               const at::Tensor& positions, double dropout,
                               const kernels::Norm& norm, const BackboneOptions& options);

}  // namespace mixerbench::models
