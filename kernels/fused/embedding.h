// The start of the residual stream: token embedding, learned positions and dropout in one pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels::fused {

struct EmbeddingArgs {
  at::Tensor tokens;          // [B,T] int32 or int64, in 0..V-1
  at::Tensor table;           // [V,D]
  at::Tensor positions = {};  // [T,D], added to every sequence; undefined: none
  double dropout_p = 0;       // of the sum
  at::Tensor seed = {};       // int64 [1] (dropout.h); needed when dropout_p > 0
  // Of the result; none: that of the table.
  std::optional<at::ScalarType> dtype = std::nullopt;
};

// out[b,t] = dropout(table[tokens[b,t]] + positions[t]) -> [B,T,D], formed in the dtype of
// the table. The backward pass sorts the tokens by counting and adds without atomics, so it repeats
// itself bit by bit. The fast path on a GPU takes float32 tables with D a multiple of 8 up to 512
// and V up to 40,000, and is the reference otherwise. Cost: forward writes D elements a token;
// backward reads them. Errors: std::logic_error when shapes or dtypes disagree.
at::Tensor Embedding(const EmbeddingArgs& args, ExecutionPath path = ExecutionPath::kFast);

// The same by ATen operations.
at::Tensor ReferenceEmbedding(const EmbeddingArgs& args);

}  // namespace mixerbench::kernels::fused
