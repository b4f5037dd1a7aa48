// Adding to the residual stream and normalising it, in one pass over memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "kernels/fused/rows.h"

namespace mixerbench::kernels::fused {

// LayerNorm over the last axis (biased variance), or RMSNorm when there is no bias.
struct Norm {
  at::Tensor weight;     // [D]
  at::Tensor bias = {};  // [D]; undefined: RMSNorm
  double eps = 1e-5;
};

struct ResidualNormArgs {
  at::Tensor residual = {};                // [..., D], the stream; undefined: zero
  at::Tensor added;                        // [..., D], what joins it, any floating dtype
  at::Tensor added_bias = {};              // [D], what joins it in every row; undefined: none
  std::optional<Norm> mid = std::nullopt;  // s <- s + mid(s), zoology's identity state mixer
  Norm norm;
  at::ScalarType out_dtype = at::kFloat;  // of `normalised`
  // Only these M of the N rows of the stream are used later; nullptr: all.
  const RowSelection* kept = nullptr;
};

struct ResidualNormResult {
  // u, in float32 (float64 for float64 inputs); [M,D] when only some rows are kept, where a row
  // that only fills (rows.h) has any finite value.
  at::Tensor residual;
  at::Tensor normalised;  // norm(u), out_dtype
};

// s = residual + added + added_bias; u = s + mid(s) (or s); normalised = norm(u). Statistics in
// float32 at least. The fast path on a GPU takes widths of ResidualNormSupportsWidth, a float32
// stream and float32 weights, and is the reference otherwise; its backward pass recomputes the
// norms, so nothing is kept but the inputs. Cost: 8 D bytes a row and what the dtypes of `added`
// and `normalised` add, each way once.
ResidualNormResult ResidualNorm(const ResidualNormArgs& args,
                                ExecutionPath path = ExecutionPath::kFast);

// The same by ATen operations.
ResidualNormResult ReferenceResidualNorm(const ResidualNormArgs& args);

}  // namespace mixerbench::kernels::fused
