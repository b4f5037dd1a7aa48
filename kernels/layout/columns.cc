// SPDX-License-Identifier: Apache-2.0
#include "kernels/layout/columns.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/layout/copy_rows.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels {
namespace {

struct Range {
  std::int64_t begin;
  std::int64_t end;

  std::int64_t size() const { return end - begin; }
  bool Overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

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

std::vector<at::Tensor> ViewColumns(const at::Tensor& x, const std::vector<std::int64_t>& sizes) {
  std::vector<at::Tensor> views;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    views.push_back(x.narrow(-1, begin, size));
    begin += size;
  }
  return views;
}

// The gradient of a matrix while a backward pass forms it. Each column is given away once; who asks
// for one again (another user of the column, another backward pass) begins a new matrix, so nothing
// is ever written to that somebody may hold.
class GradientMatrix final : public NodeData {
 public:
  // Of x [..., C] in rows at one distance, whose columns from `padding` on are padding.
  GradientMatrix(const at::Tensor& x, std::int64_t padding)
      : num_rows_(x.numel() / x.size(-1)),
        pitch_(x.stride(-2)),
        offset_(x.storage_offset()),
        padding_{padding, x.size(-1)},
        options_(x.options()) {}

  // The columns that x, a view of the matrix, consists of; none when it has not all rows of them.
  std::optional<Range> RangeOf(const at::Tensor& x) const {
    const std::int64_t begin = x.storage_offset() - offset_;
    if (begin < 0 || x.dtype() != options_.dtype()) return std::nullopt;
    for (std::int64_t row_axes = x.dim() - 1; row_axes > 0; --row_axes) {
      const auto block = BlockOf(x, row_axes);
      if (block && block->pitch == pitch_ && block->num_rows == num_rows_ &&
          begin + block->width <= pitch_) {
        return Range{begin, begin + block->width};
      }
    }
    return std::nullopt;
  }

  // Tensors in the places of `like`, of which no two share columns; none when these have none.
  // `padding`, if asked for, says how many columns of padding come with the last.
  std::optional<std::vector<at::Tensor>> Claim(const std::vector<at::Tensor>& like,
                                               std::int64_t* padding = nullptr) {
    std::vector<Range> ranges;
    for (const at::Tensor& x : like) {
      const auto range = RangeOf(x);
      if (!range || Overlap(ranges, *range)) return std::nullopt;
      ranges.push_back(*range);
    }
    if (padding != nullptr && ranges.back().end == padding_.begin) {
      ranges.back().end = padding_.end;
      *padding = padding_.size();
    }
    const std::scoped_lock lock(mutex_);
    const bool is_taken = std::any_of(ranges.begin(), ranges.end(), [this](const Range& range) {
      return Overlap(claimed_, range);
    });
    if (is_taken || !matrix_.defined()) Begin();
    claimed_.insert(claimed_.end(), ranges.begin(), ranges.end());
    std::vector<at::Tensor> places;
    for (std::size_t i = 0; i < like.size(); ++i) {
      places.push_back(matrix_.as_strided(like[i].sizes(), like[i].strides(), ranges[i].begin));
    }
    return places;
  }

  // What SplitColumns knows of its x.
  struct Split {
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    std::int64_t begin;  // column of the matrix
    std::vector<std::int64_t> sizes;
  };

  // The gradient of that x from those of the blocks, undefined where zero.
  at::Tensor Join(const std::vector<at::Tensor>& grads, const Split& split) {
    const std::scoped_lock lock(mutex_);
    if (!matrix_.defined()) Begin();
    at::Tensor whole = matrix_.as_strided(split.shape, split.strides, split.begin);
    if (MovedAway(grads, whole, split)) {
      Begin();
      whole = matrix_.as_strided(split.shape, split.strides, split.begin);
    }
    const auto columns = ViewColumns(whole, split.sizes);
    std::int64_t end = split.begin;
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!IsAt(grads[i], columns[i])) CopyRows(columns[i], grads[i]);
      end += split.sizes[i];
    }
    const Range padding{end, split.begin + split.shape.back()};
    if (padding.size() > 0 && !Overlap(claimed_, padding)) {
      CopyRows(whole.narrow(-1, padding.begin - split.begin, padding.size()), {});
    }
    claimed_.push_back({split.begin, padding.end});
    return whole;
  }

  // Ends a backward pass: the next one begins a new matrix.
  void Release() {
    const std::scoped_lock lock(mutex_);
    matrix_.reset();
    claimed_.clear();
  }

 private:
  static bool Overlap(const std::vector<Range>& ranges, const Range& range) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const Range& other) { return range.Overlaps(other); });
  }

  static bool IsAt(const at::Tensor& grad, const at::Tensor& place) {
    return grad.defined() && grad.storage().is_alias_of(place.storage()) &&
           grad.storage_offset() == place.storage_offset() && grad.strides() == place.strides();
  }

  // Whether a block was given away whose gradient is none the less elsewhere: somebody may hold
  // what was written, as happens with columns that several functions take.
  bool MovedAway(const std::vector<at::Tensor>& grads, const at::Tensor& whole,
                 const Split& split) const {
    const auto columns = ViewColumns(whole, split.sizes);
    Range range{split.begin, split.begin};
    for (std::size_t i = 0; i < grads.size(); ++i) {
      range = {range.end, range.end + split.sizes[i]};
      if (!IsAt(grads[i], columns[i]) && Overlap(claimed_, range)) return true;
    }
    return false;
  }

  void Begin() {
    matrix_ = at::empty({num_rows_ * pitch_}, options_);
    claimed_.clear();
  }

  const std::int64_t num_rows_;
  const std::int64_t pitch_;   // elements between rows
  const std::int64_t offset_;  // of x in its storage
  const Range padding_;
  const at::TensorOptions options_;
  std::mutex mutex_;            // of what follows: backward passes may run in several threads
  at::Tensor matrix_;           // undefined until somebody asks
  std::vector<Range> claimed_;  // columns of it
};

// The matrix that x is columns of, if any.
std::shared_ptr<GradientMatrix> MatrixOf(const at::Tensor& x) {
  auto matrix = std::dynamic_pointer_cast<GradientMatrix>(NodeDataOf(x));
  return matrix != nullptr && matrix->RangeOf(x) ? matrix : nullptr;
}

}  // namespace

std::vector<at::Tensor> SplitColumns(const at::Tensor& x, const std::vector<std::int64_t>& sizes,
                                     ExecutionPath path) {
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) total += size;
  Require(x.dim() >= 2 && total <= x.size(-1), "x [..., C] holds the blocks of columns");
  if (sizes.size() == 1 && total == x.size(-1)) return {x};
  if (path == ExecutionPath::kReference || !NeedsBackward({x}) || x.numel() == 0 ||
      !BlockOf(x, x.dim() - 1)) {
    return ViewColumns(x, sizes);
  }
  std::vector<at::Tensor> views;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    views = ViewColumns(x, sizes);
  }
  auto matrix = MatrixOf(x);
  const bool is_owner = matrix == nullptr;
  if (is_owner) matrix = std::make_shared<GradientMatrix>(x, total);
  const GradientMatrix::Split split{x.sizes().vec(), x.strides().vec(), matrix->RangeOf(x)->begin,
                                    sizes};
  SetBackward(
      "SplitColumns", {x}, views, {},
      [split, is_owner, matrix](const BackwardArgs& args) -> std::vector<at::Tensor> {
        at::Tensor grad = matrix->Join(args.grads, split);
        if (is_owner) matrix->Release();
        return {std::move(grad)};
      },
      matrix);
  return views;
}

bool AreColumns(const at::Tensor& x) { return MatrixOf(x) != nullptr; }

std::vector<at::Tensor> EmptyTogether(const std::vector<at::Tensor>& like) {
  std::vector<std::shared_ptr<GradientMatrix>> matrices;
  for (const at::Tensor& x : like) matrices.push_back(MatrixOf(x));
  std::vector<at::Tensor> results(like.size());
  for (std::size_t first = 0; first < like.size(); ++first) {
    if (results[first].defined() || matrices[first] == nullptr) continue;
    std::vector<std::size_t> members;
    std::vector<at::Tensor> columns;
    for (std::size_t i = first; i < like.size(); ++i) {
      if (matrices[i] != matrices[first]) continue;
      members.push_back(i);
      columns.push_back(like[i]);
    }
    const auto places = matrices[first]->Claim(columns);
    if (!places) continue;
    for (std::size_t i = 0; i < members.size(); ++i) results[members[i]] = (*places)[i];
  }
  for (std::size_t i = 0; i < like.size(); ++i) {
    if (!results[i].defined()) results[i] = at::empty(like[i].sizes(), like[i].options());
  }
  return results;
}

PaddedColumns EmptyWithPadding(const at::Tensor& like) {
  PaddedColumns result;
  const auto matrix = MatrixOf(like);
  if (matrix == nullptr) {
    result.columns = at::empty(like.sizes(), like.options());
  } else {
    result.columns = matrix->Claim({like}, &result.padding).value().front();
  }
  return result;
}

}  // namespace mixerbench::kernels
