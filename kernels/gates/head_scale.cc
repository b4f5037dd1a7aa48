// SPDX-License-Identifier: Apache-2.0
#include "kernels/gates/head_scale.h"

#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/device/dispatch.h"
#include "kernels/device/launch.h"
#include "kernels/gates/head_scale_cuda.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels {
namespace {

void Check(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& base) {
  Require(x.dim() >= 2, "heads are [...,H,D]");
  Require(scale.sizes() == x.sizes().slice(0, x.dim() - 1) ||
              (scale.dim() == 1 && scale.size(0) == x.size(-2)),
          "scale of heads: one of each row, [...,H], or one of each head, [H]");
  Require(!base.defined() || (base.sizes() == x.sizes() && base.scalar_type() == x.scalar_type()),
          "what scaled heads are added to is like them");
}

std::string Refusal(const at::Tensor& x, const at::Tensor& scale) {
  std::string reason = DeviceRefusal(x);
  if (!reason.empty()) return reason;
  if (scale.scalar_type() != at::kFloat) return "the scale is not fp32";
  if (HeadScaleSupports(x.size(-2), x.size(-1))) return {};
  return "no kernel for heads of " + std::to_string(x.size(-1)) + " channels";
}

at::Tensor Reference(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& base) {
  at::Tensor y = x * scale.unsqueeze(-1);
  if (base.defined()) y = y + base;
  return y.to(x.scalar_type());
}

// [...,H,D] -> [...,H D] with aligned rows; undefined stays.
at::Tensor TokenRows(const at::Tensor& x) { return x.defined() ? AlignedRows(x.flatten(-2)) : x; }

// saved: x as token rows, scale.
std::vector<at::Tensor> Backward(const BackwardArgs& args, const HeadScaleSizes& sizes) {
  const at::Tensor &x = args.saved[0], &scale = args.saved[1];
  std::vector<at::Tensor> gradients(3);
  if (args.wanted[2]) gradients[2] = args.grads[0];
  at::Tensor partials;
  if (args.wanted[0]) gradients[0] = at::empty(x.sizes(), x.options());
  if (args.wanted[1]) {
    gradients[1] = at::empty(scale.sizes(), scale.options());
    if (!sizes.scale_of_rows) {
      partials = at::empty({HeadScalePartials(sizes), sizes.num_heads}, scale.options());
    }
  }
  if (!args.wanted[0] && !args.wanted[1]) return gradients;
  const at::Tensor d_y = AlignedRows(args.grads[0]);
  OnDeviceOf(x, "ScaleHeads backward", [&](CUstream_st* stream) {
    return LaunchHeadScaleBackward({.sizes = sizes,
                                    .x = RowsOf(x),
                                    .scale = FloatsOf(scale),
                                    .d_y = RowsOf(d_y),
                                    .d_x = MutableRowsOf(gradients[0]),
                                    .d_scale = MutableFloatsOf(gradients[1]),
                                    .partials = MutableFloatsOf(partials)},
                                   stream);
  });
  return gradients;
}

}  // namespace

at::Tensor ScaleHeads(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& base,
                      ExecutionPath path) {
  Check(x, scale, base);
  if (!RunsByKernels("head_scale", path, Refusal(x, scale), {x, scale, base})) {
    return Reference(x, scale, base);
  }
  const at::Tensor rows = TokenRows(x);
  const at::Tensor base_rows = TokenRows(base);
  const at::Tensor dense_scale = scale.contiguous();
  const HeadScaleSizes sizes{.num_rows = rows.numel() / rows.size(-1),
                             .num_heads = static_cast<int>(x.size(-2)),
                             .head_dim = static_cast<int>(x.size(-1)),
                             .scale_of_rows = scale.dim() + 1 == x.dim()};
  const at::Tensor y = at::empty(rows.sizes(), rows.options());
  OnDeviceOf(x, "ScaleHeads", [&](CUstream_st* stream) {
    return LaunchHeadScaleForward({.sizes = sizes,
                                   .x = RowsOf(rows),
                                   .scale = FloatsOf(dense_scale),
                                   .base = RowsOf(base_rows),
                                   .y = MutableRowsOf(y)},
                                  stream);
  });
  SetBackward("ScaleHeads", {rows, dense_scale, base_rows}, {y}, {rows, dense_scale},
              [sizes](const BackwardArgs& backward) { return Backward(backward, sizes); });
  return y.view(x.sizes());
}

}  // namespace mixerbench::kernels
