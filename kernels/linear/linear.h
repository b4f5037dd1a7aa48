// A linear layer in the dtype of its input, with parameters and their gradients in float32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/layout/rows.h"
#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

// bf16 copies of the parameters of a linear layer, for the fast path on a GPU: it forms them itself
// where they are undefined. Each ends in kShadowPadding rows of zeros.
struct ShadowWeights {
  at::Tensor weight = {};
  at::Tensor bias = {};
};
constexpr std::int64_t kShadowPadding = 15;

// Columns of the matrix that holds so many: its rows are aligned to 32 bytes.
constexpr std::int64_t PaddedWidth(std::int64_t columns) {
  constexpr std::int64_t kUnit = kShadowPadding + 1;
  return (columns + kUnit - 1) / kUnit * kUnit;
}

// x [..., in], weight [out,in], bias [out] or undefined -> x weight^T + bias [..., out], dtype of
// x. On a GPU with float32 weights and bf16 inputs the gradients of weight and bias leave the
// matrix product in float32 instead of being rounded to bf16 in between; rows of the result and of
// its gradient are kept aligned to 32 bytes when `out` is no multiple of sixteen, so the result
// need not be dense: memory is written in pieces of 32 bytes, and rows that end within one take a
// third more time. Errors: std::logic_error when shapes disagree.
at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  ExecutionPath path = ExecutionPath::kFast, const ShadowWeights& narrow = {});

// Neighbouring columns of a projection, `size` wide.
struct ColumnBlock {
  // Implicit, so that sizes can be listed.
  ColumnBlock(std::int64_t num_columns, bool only_scored = false)
      : size(num_columns), scored(only_scored) {}

  std::int64_t size;
  bool scored;  // wanted in scored positions alone
};

// Linear in blocks of neighbouring columns. Prefer it to splitting the result: padding is then part
// of the gradient's matrix too. With `scored`, M of the N rows of x [..., in] seen as [N,in],
// blocks that are `scored` are [M, size], the rows that GatherRows would take, with gradients as
// there; the others are [..., size]. The fast path on a GPU forms them in products of M rows when
// that pays.
std::vector<at::Tensor> LinearColumns(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias,
                                      const std::vector<ColumnBlock>& blocks,
                                      const ScoredPositions* scored = nullptr,
                                      ExecutionPath path = ExecutionPath::kFast,
                                      const ShadowWeights& narrow = {});

// Whether the fast path forms `columns` columns of `num_scored` of `num_rows` rows in products of
// their own, instead of taking them from those of all rows.
bool FormsScoredApart(std::int64_t num_rows, std::int64_t num_scored, std::int64_t columns);

}  // namespace mixerbench::kernels
