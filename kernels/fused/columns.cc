// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/columns.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/differentiable.h"
#include "kernels/fused/copy_rows.h"

namespace mixerbench::kernels::fused {
namespace {

// Where the rows of a tensor lie in a matrix of `pitch` elements a row: the leading axes, merged,
// count rows, the others lie inside one.
struct Block {
  std::int64_t num_rows = 1;
  std::int64_t pitch = 0;
  std::int64_t width = 1;
};

// The leading `row_axes` axes of x as rows; none when x does not have that form.
std::optional<Block> BlockOf(const at::Tensor& x, std::int64_t row_axes) {
  Block block;
  std::int64_t expected = 1;
  for (std::int64_t axis = x.dim() - 1; axis >= row_axes; --axis) {
    if (x.size(axis) != 1 && x.stride(axis) != expected) return std::nullopt;
    expected *= x.size(axis);
  }
  block.width = expected;
  block.pitch = x.stride(row_axes - 1);
  expected = block.pitch;
  for (std::int64_t axis = row_axes - 1; axis >= 0; --axis) {
    if (x.size(axis) != 1 && x.stride(axis) != expected) return std::nullopt;
    expected *= x.size(axis);
    block.num_rows *= x.size(axis);
  }
  if (block.pitch < block.width) return std::nullopt;
  return block;
}

// Whether the blocks of `tensors` are columns of one matrix: one storage, one pitch, no overlap.
bool AreColumnsOfOneMatrix(const std::vector<at::Tensor>& tensors, std::int64_t row_axes) {
  const auto first = BlockOf(tensors.front(), row_axes);
  if (!first) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> columns;  // begin, end
  for (const at::Tensor& tensor : tensors) {
    const auto block = BlockOf(tensor, row_axes);
    if (!block || block->pitch != first->pitch || block->num_rows != first->num_rows ||
        tensor.scalar_type() != tensors.front().scalar_type() ||
        !tensor.storage().is_alias_of(tensors.front().storage())) {
      return false;
    }
    const std::int64_t begin = tensor.storage_offset() % first->pitch;
    if (tensor.storage_offset() - begin !=
            tensors.front().storage_offset() - tensors.front().storage_offset() % first->pitch ||
        begin + block->width > first->pitch) {
      return false;
    }
    columns.emplace_back(begin, begin + block->width);
  }
  std::sort(columns.begin(), columns.end());
  for (std::size_t i = 1; i < columns.size(); ++i) {
    if (columns[i].first < columns[i - 1].second) return false;
  }
  return true;
}

// How many leading axes of the tensors count rows of one matrix of which they are columns; 0 when
// they are not. At least one axis is left for the columns.
std::int64_t RowAxesOfOneMatrix(const std::vector<at::Tensor>& tensors) {
  std::int64_t axes = tensors.front().dim() - 1;
  for (const at::Tensor& tensor : tensors) {
    axes = std::min(axes, tensor.dim() - 1);
    for (std::int64_t axis = 0; axis < axes; ++axis) {
      if (tensor.size(axis) != tensors.front().size(axis)) axes = axis;
    }
  }
  while (axes > 0 && !AreColumnsOfOneMatrix(tensors, axes)) --axes;
  return axes;
}

std::vector<at::Tensor> ViewColumns(const at::Tensor& x, const std::vector<std::int64_t>& sizes) {
  std::vector<at::Tensor> views;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    views.push_back(x.narrow(-1, begin, size));
    begin += size;
  }
  return views;
}

// What a gradient of all columns needs to know of x.
struct Matrix {
  std::vector<std::int64_t> shape;
  std::int64_t pitch;  // elements between rows
  std::vector<std::int64_t> sizes;
};

// A tensor of the shape of x in rows of matrix.pitch elements.
at::Tensor EmptyMatrix(const Matrix& matrix, const at::TensorOptions& options) {
  std::vector<std::int64_t> shape = matrix.shape;
  shape.back() = matrix.pitch;
  return at::empty(shape, options).narrow(-1, 0, matrix.shape.back());
}

// Whether nothing holds the storage but these gradients and the one tensor that all of those which
// lie in it are views of, which they keep alive.
bool AreOnlyHolders(const std::vector<at::Tensor>& grads, const c10::Storage& storage) {
  std::size_t holders = 0;
  std::size_t views = 0;
  at::Tensor base;
  for (const at::Tensor& grad : grads) {
    if (!grad.defined() || !grad.storage().is_alias_of(storage)) continue;
    ++holders;
    if (!grad.is_view()) continue;
    ++views;
    if (!base.defined()) base = grad._base();
    if (!base.is_same(grad._base())) return false;
  }
  if (views == 0) return storage.use_count() == holders;
  const std::size_t ours = 1;  // `base` above
  return storage.use_count() == holders + 1 && base.use_count() == views + ours;
}

// The first block of gradients that lies in a matrix of this pitch at its own columns, when nobody
// else holds that matrix: the rest of it is free. Returns the whole matrix.
at::Tensor FindMatrix(const std::vector<at::Tensor>& grads, const Matrix& matrix) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < grads.size(); begin += matrix.sizes[i++]) {
    const at::Tensor& grad = grads[i];
    if (!grad.defined()) continue;
    const auto block = BlockOf(grad, grad.dim() - 1);
    if (!block || block->pitch != matrix.pitch || grad.storage_offset() != begin ||
        grad.storage().nbytes() <
            static_cast<std::size_t>(block->num_rows * matrix.pitch) * grad.element_size()) {
      continue;
    }
    if (!AreOnlyHolders(grads, grad.storage())) continue;
    std::vector<std::int64_t> strides(matrix.shape.size(), 1);
    std::int64_t stride = matrix.pitch;
    for (std::size_t axis = matrix.shape.size() - 1; axis-- > 0;) {
      strides[axis] = stride;
      stride *= matrix.shape[axis];
    }
    return grad.as_strided(matrix.shape, strides, 0);
  }
  return {};
}

at::Tensor JoinColumns(const std::vector<at::Tensor>& grads, const Matrix& matrix,
                       const at::TensorOptions& options) {
  at::Tensor whole = FindMatrix(grads, matrix);
  if (!whole.defined()) {
    whole = EmptyMatrix(matrix, options);
  }
  const auto columns = ViewColumns(whole, matrix.sizes);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const bool in_place = grads[i].defined() && grads[i].storage().is_alias_of(whole.storage()) &&
                          grads[i].storage_offset() == columns[i].storage_offset();
    if (!in_place) CopyRows(columns[i], grads[i]);
  }
  return whole;
}

// Uninitialised tensors like those of one storage: blocks of columns of one new matrix if they are
// that, else each dense.
std::vector<at::Tensor> EmptyColumns(const std::vector<at::Tensor>& like) {
  std::vector<at::Tensor> results;
  const std::int64_t row_axes = RowAxesOfOneMatrix(like);
  if (row_axes == 0) {
    for (const at::Tensor& tensor : like) {
      results.push_back(at::empty(tensor.sizes(), tensor.options()));
    }
    return results;
  }
  const auto block = *BlockOf(like.front(), row_axes);
  const at::Tensor matrix =
      at::empty({block.num_rows * block.pitch}, like.front().options().requires_grad(false));
  for (const at::Tensor& tensor : like) {
    results.push_back(
        matrix.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset() % block.pitch));
  }
  return results;
}

}  // namespace

std::vector<at::Tensor> SplitColumns(const at::Tensor& x, const std::vector<std::int64_t>& sizes) {
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) total += size;
  Require(x.dim() >= 2 && total == x.size(-1), "the blocks of columns make up x [..., C]");
  if (!NeedsBackward({x}) || !BlockOf(x, x.dim() - 1)) return ViewColumns(x, sizes);
  std::vector<at::Tensor> views;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    views = ViewColumns(x, sizes);
  }
  SetBackward("SplitColumns", {x}, views, {},
              [matrix = Matrix{x.sizes().vec(), x.stride(-2), sizes},
               options = x.options()](const BackwardArgs& args) -> std::vector<at::Tensor> {
                return {JoinColumns(args.grads, matrix, options)};
              });
  return views;
}

std::vector<at::Tensor> EmptyTogether(const std::vector<at::Tensor>& like) {
  std::vector<at::Tensor> results(like.size());
  for (std::size_t first = 0; first < like.size(); ++first) {
    if (results[first].defined()) continue;
    std::vector<std::size_t> members;
    std::vector<at::Tensor> group;
    for (std::size_t i = first; i < like.size(); ++i) {
      if (!like[i].storage().is_alias_of(like[first].storage())) continue;
      members.push_back(i);
      group.push_back(like[i]);
    }
    auto together = EmptyColumns(group);
    for (std::size_t i = 0; i < members.size(); ++i) results[members[i]] = std::move(together[i]);
  }
  return results;
}

}  // namespace mixerbench::kernels::fused
