// The start of the residual stream: token embedding, learned positions, dropout and the first norm
// in one pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/norm/residual_norm.h"
#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

struct EmbeddingArgs {
  at::Tensor tokens;          // [B,T] int32 or int64, in 0..V-1
  at::Tensor table;           // [V,D]
  at::Tensor positions = {};  // [T,D], added to every sequence; undefined: none
  double dropout_p = 0;       // of the sum
  at::Tensor seed = {};       // int64 [1] (dropout.h); needed when dropout_p > 0
  // Of the results; none: that of the table.
  std::optional<at::ScalarType> dtype = std::nullopt;
  Norm norm;
};

struct EmbeddingResult {
  at::Tensor stream;      // [B,T,D]
  at::Tensor normalised;  // [B,T,D], norm(stream)
  // The table again, for a head that shares its weight: the gradient that arrives here joins that
  // of the embedding where this is formed, which saves a pass over both. Users of the table itself
  // get the same sum.
  at::Tensor table;
};

// stream[b,t] = dropout(table[tokens[b,t]] + positions[t]), formed in the dtype of the table and
// rounded to that of the result; normalised is the norm of what was rounded. The backward pass
// sorts the tokens by counting and adds without atomics, so it repeats itself bit by bit. The fast
// path on a GPU takes float32 parameters with D a multiple of 8 up to 512 and V up to 40,000, and
// is the reference otherwise. Cost: forward writes 2 D elements a token; backward reads 3 D.
// Errors: std::logic_error when shapes or dtypes disagree.
EmbeddingResult Embedding(const EmbeddingArgs& args, ExecutionPath path = ExecutionPath::kFast);

// The same by ATen operations.
EmbeddingResult ReferenceEmbedding(const EmbeddingArgs& args);

}  // namespace mixerbench::kernels
