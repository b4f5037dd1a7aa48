// Adding to the residual stream and normalising it, in one pass over memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/layout/rows.h"
#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

// LayerNorm over the last axis (biased variance), or RMSNorm when there is no bias.
struct Norm {
  at::Tensor weight;     // [D]
  at::Tensor bias = {};  // [D]; undefined: RMSNorm
  double eps = 1e-5;
};

struct ResidualNormArgs {
  at::Tensor residual = {};                // [..., D], the stream; undefined: zero
  at::Tensor added;                        // [..., D], what joins it, of the same dtype
  std::optional<Norm> mid = std::nullopt;  // s <- s + mid(s), zoology's identity state mixer
  Norm norm;
  // Only these M of the N rows of the stream are used later; nullptr: all.
  const ScoredPositions* scored = nullptr;
};

struct ResidualNormResult {
  // u; [M,D] when only some rows are scored, where a row that only fills (rows.h) is finite.
  at::Tensor residual;
  at::Tensor normalised;  // norm(u)
};

// s = residual + added; u = s + mid(s) (or s); normalised = norm(u); results in the
// dtype of `added`, all arithmetic in float32 at least. The fast path on a GPU takes widths of
// ResidualNormSupports and float32 weights, and is the reference otherwise; its backward pass
// recomputes the norms from the inputs and 16 bytes a row. Cost in elements of D columns a row:
// forward reads two and writes two, backward reads four and writes one.
ResidualNormResult ResidualNorm(const ResidualNormArgs& args,
                                ExecutionPath path = ExecutionPath::kFast);

// The same by ATen operations.
ResidualNormResult ReferenceResidualNorm(const ResidualNormArgs& args);

}  // namespace mixerbench::kernels
