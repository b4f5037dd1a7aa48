// SPDX-License-Identifier: Apache-2.0
#include "kernels/layout/rows.h"

#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "kernels/device/launch.h"
#include "kernels/layout/columns.h"
#include "kernels/layout/rows_cuda.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels {
namespace {

bool SupportsRows(const at::Tensor& x) {
  return RunsOnDevice(x) && x.size(-1) * static_cast<std::int64_t>(x.element_size()) % 16 == 0;
}

// x [N,D]; zeros where rows[i] is N. The result lies in `place` if that is given and suits.
at::Tensor TakeRows(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& place = {}) {
  if (!SupportsRows(x)) {
    return at::cat({x, at::zeros({1, x.size(1)}, x.options())}).index_select(0, rows);
  }
  const at::Tensor source = AlignedRows(x);
  const at::Tensor target = place.defined() && HasAlignedRows(place)
                                ? place
                                : at::empty({rows.size(0), x.size(1)}, x.options());
  OnDeviceOf(x, "GatherRows", [&](CUstream_st* stream) {
    const auto element_size = static_cast<std::int64_t>(source.element_size());
    return LaunchCopyRows({.source = source.const_data_ptr(),
                           .source_stride = source.stride(0) * element_size,
                           .num_source_rows = source.size(0),
                           .target = target.mutable_data_ptr(),
                           .target_stride = target.stride(0) * element_size,
                           .num_rows = rows.size(0),
                           .row_bytes = source.size(1) * element_size,
                           .rows = rows.const_data_ptr<std::int64_t>()},
                          stream);
  });
  return target;
}

}  // namespace

at::Tensor GatherRows(const at::Tensor& x, const ScoredPositions& selection, ExecutionPath path) {
  const at::Tensor flat = x.flatten(0, -2);
  Require(selection.positions.scalar_type() == at::kLong && selection.positions.is_contiguous() &&
              selection.inverse.scalar_type() == at::kLong && selection.inverse.is_contiguous() &&
              selection.inverse.numel() == flat.size(0),
          "rows [M] and inverse [N] are dense int64");
  if (path == ExecutionPath::kReference) return flat.index_select(0, selection.positions);
  at::Tensor taken;
  {
    const at::NoGradGuard no_grad;
    taken = SupportsRows(flat) ? TakeRows(flat, selection.positions)
                               : flat.index_select(0, selection.positions);
  }
  const at::Tensor columns = AreColumns(flat) ? flat : at::Tensor();
  SetBackward("GatherRows", {flat}, {taken}, {selection.inverse, columns},
              [](const BackwardArgs& args) -> std::vector<at::Tensor> {
                at::Tensor place;
                if (args.saved[1].defined()) place = EmptyTogether({args.saved[1]})[0];
                return {TakeRows(args.grads[0], args.saved[0], place)};
              });
  return taken;
}

void AddRows(const at::Tensor& x, const at::Tensor& source, const ScoredPositions& selection) {
  const at::NoGradGuard no_grad;
  if (!SupportsRows(x) || x.scalar_type() != at::kBFloat16 || !HasAlignedRows(x)) {
    x.add_(TakeRows(source, selection.inverse));
    return;
  }
  const at::Tensor aligned = AlignedRows(source);
  OnDeviceOf(x, "AddRows", [&](CUstream_st* stream) {
    return LaunchAddRows({.source = RowsOf(aligned),
                          .target = MutableRowsOf(x),
                          .num_rows = aligned.size(0),
                          .width = x.size(1),
                          .rows = selection.positions.const_data_ptr<std::int64_t>(),
                          .inverse = selection.inverse.const_data_ptr<std::int64_t>()},
                         stream);
  });
}

}  // namespace mixerbench::kernels
