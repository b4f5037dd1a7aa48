// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/norm_linear.h"

#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/differentiable.h"
#include "kernels/fused/dispatch.h"
#include "kernels/fused/hopper_device.h"
#include "kernels/fused/launch.h"
#include "kernels/fused/linear_product.h"
#include "kernels/fused/norm_linear_device.h"
#include "kernels/fused/output_norm.h"

namespace mixerbench::kernels::fused {
namespace {

NormLinearSizes SizesOf(const NormLinearArgs& args) {
  return {.num_rows = args.x.size(0) * args.x.size(1),
          .head_dim = static_cast<int>(args.x.size(3)),
          .in = static_cast<int>(args.weight.size(1)),
          .out = static_cast<int>(args.weight.size(0)),
          .eps = static_cast<float>(args.eps)};
}

std::string Refusal(const NormLinearArgs& args) {
  std::string reason = DeviceRefusal(args.x);
  if (!reason.empty()) return reason;
  if (args.x.scalar_type() != at::kBFloat16 || args.norm_weight.scalar_type() != at::kFloat ||
      args.weight.scalar_type() != at::kFloat) {
    return "for bf16 inputs and fp32 weights";
  }
  if (!IsHopper(args.x.get_device())) return "needs compute capability 9.0";
  const NormLinearSizes sizes = SizesOf(args);
  if (NormLinearTakes(sizes)) return {};
  return "no kernel for " + std::to_string(sizes.num_rows) + " rows of " +
         std::to_string(sizes.in) + " by " + std::to_string(sizes.out) + ", heads of " +
         std::to_string(sizes.head_dim);
}

// The matrix x [N,W] with rows of which tiles can be copied.
at::Tensor TiledRows(const at::Tensor& x) {
  const at::Tensor rows = AlignedRows(x);
  return HasTiles(rows) ? rows : rows.contiguous();
}

enum Saved { kX, kNormWeight, kWeight };

std::vector<at::Tensor> Backward(const BackwardArgs& args, const NormLinearSizes& sizes) {
  const at::Tensor& x = args.saved[kX];
  const at::Tensor& norm_weight = args.saved[kNormWeight];
  const at::Tensor& weight = args.saved[kWeight];
  const at::Tensor d_y = TiledRows(args.grads[0]);
  const auto floats = weight.options().dtype(at::kFloat);
  const at::Tensor d_x = at::empty({x.size(0), x.size(1)}, x.options());
  const at::Tensor d_norm_weight = at::empty(norm_weight.sizes(), floats);
  const at::Tensor d_weight = at::empty(weight.sizes(), floats);
  const at::Tensor scratch = at::empty({NormLinearScratch(sizes)}, floats);
  OnDeviceOf(x, "NormLinear backward", [&](CUstream_st* stream) {
    return LaunchNormLinearBackward({.sizes = sizes,
                                     .x = RowsOf(x),
                                     .norm_weight = FloatsOf(norm_weight),
                                     .weight = RowsOf(weight),
                                     .d_y = RowsOf(d_y),
                                     .d_x = MutableRowsOf(d_x),
                                     .d_norm_weight = MutableFloatsOf(d_norm_weight),
                                     .d_weight = MutableFloatsOf(d_weight),
                                     .scratch = MutableFloatsOf(scratch)},
                                    stream);
  });
  return {d_x, d_norm_weight, d_weight};
}

}  // namespace

at::Tensor NormLinear(const NormLinearArgs& args, ExecutionPath path,
                      const NarrowParameters& narrow) {
  Require(args.x.dim() == 4 && args.norm_weight.dim() == 1 && args.weight.dim() == 2 &&
              args.x.size(3) == args.norm_weight.size(0) &&
              args.x.size(2) * args.x.size(3) == args.weight.size(1),
          "norm and linear: x is [B,T,H,V], the norm's weight [V], the weight [out,H V]");
  if (!RunsByKernels("norm_linear", path, Refusal(args), {args.x, args.norm_weight, args.weight})) {
    const at::Tensor normed =
        OutputNorm({.x = args.x, .weight = args.norm_weight, .eps = args.eps}, path);
    return Linear(normed.flatten(2), args.weight, /*bias=*/{}, path, narrow);
  }
  const NormLinearSizes sizes = SizesOf(args);
  const at::Tensor x = TiledRows(args.x.reshape({-1, args.weight.size(1)}));
  const at::Tensor y = at::empty({x.size(0), sizes.out}, x.options());
  at::Tensor weight;
  {
    const at::NoGradGuard no_grad;
    weight = TiledRows(Narrowed(args.weight, narrow.weight, sizes.out));
  }
  OnDeviceOf(x, "NormLinear", [&](CUstream_st* stream) {
    return LaunchNormLinearForward({.sizes = sizes,
                                    .x = RowsOf(x),
                                    .norm_weight = FloatsOf(args.norm_weight),
                                    .weight = RowsOf(weight),
                                    .y = MutableRowsOf(y)},
                                   stream);
  });
  SetBackward("NormLinear", {x, args.norm_weight, args.weight}, {y}, {x, args.norm_weight, weight},
              [sizes](const BackwardArgs& backward) { return Backward(backward, sizes); });
  return y.view({args.x.size(0), args.x.size(1), sizes.out});
}

}  // namespace mixerbench::kernels::fused
