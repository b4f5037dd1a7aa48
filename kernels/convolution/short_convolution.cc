// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/short_convolution.h"

#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/silu.h>

#include "base/check.h"
#include "kernels/convolution/short_convolution_cuda.h"
#include "kernels/device/dispatch.h"
#include "kernels/device/launch.h"
#include "kernels/layout/columns.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

void Check(const ShortConvolutionArgs& args) {
  Require(args.x.dim() == 3 && args.weight.dim() == 2 && args.weight.size(0) == args.x.size(2),
          "short convolution: x is [B,T,C], the weight is [C,W]");
  if (args.bias.defined()) RequireShape(args.bias, {args.x.size(2)}, "bias");
  Require(
      args.norm_channels == 0 || (args.norm_dim > 0 && args.norm_channels % args.norm_dim == 0 &&
                                  args.norm_channels <= args.x.size(2)),
      "normalised channels are whole heads");
}

std::string Refusal(const ShortConvolutionArgs& args) {
  std::string reason = DeviceRefusal(args.x);
  if (!reason.empty()) return reason;
  if (args.weight.scalar_type() != at::kFloat ||
      (args.bias.defined() && args.bias.scalar_type() != at::kFloat)) {
    return "weights are not fp32";
  }
  if (ShortConvolutionSupports(args.x.size(2), args.weight.size(1), args.norm_channels,
                               args.norm_dim)) {
    return {};
  }
  return "no kernel for " + std::to_string(args.x.size(2)) + " channels, width " +
         std::to_string(args.weight.size(1)) + " and norms of " + std::to_string(args.norm_dim) +
         " channels";
}

ShortConvolutionSizes SizesOf(const ShortConvolutionArgs& args) {
  return {.batch_size = args.x.size(0),
          .seq_len = static_cast<int>(args.x.size(1)),
          .channels = static_cast<int>(args.x.size(2)),
          .width = static_cast<int>(args.weight.size(1)),
          .silu = args.silu,
          .norm_channels = static_cast<int>(args.norm_channels),
          .norm_dim = static_cast<int>(args.norm_dim),
          .norm_eps = static_cast<float>(args.norm_eps)};
}

// saved: x, weight, bias.
std::vector<at::Tensor> Backward(const BackwardArgs& args, const ShortConvolutionSizes& sizes) {
  const at::Tensor& x = args.saved[0];
  const at::Tensor& weight = args.saved[1];
  const at::Tensor d_y = AlignedRows(args.grads[0]);
  const at::Tensor d_x = EmptyTogether({x})[0];
  const auto floats = weight.options().requires_grad(false);
  const std::int64_t num_weights = weight.numel() + weight.size(0);
  const at::Tensor partials = at::empty({ShortConvolutionPartials(sizes), num_weights}, floats);
  const at::Tensor d_weights = at::empty({num_weights}, floats);
  OnDeviceOf(x, "ShortConvolution backward", [&](CUstream_st* stream) {
    return LaunchShortConvolutionBackward({.sizes = sizes,
                                           .x = RowsOf(x),
                                           .weight = FloatsOf(weight),
                                           .bias = FloatsOf(args.saved[2]),
                                           .d_y = RowsOf(d_y),
                                           .d_x = MutableRowsOf(d_x),
                                           .partials = MutableFloatsOf(partials),
                                           .d_weights = MutableFloatsOf(d_weights)},
                                          stream);
  });
  std::vector<at::Tensor> gradients(3);
  if (args.wanted[0]) gradients[0] = d_x;
  if (args.wanted[1]) gradients[1] = d_weights.narrow(0, 0, weight.numel()).view(weight.sizes());
  if (args.wanted[2]) gradients[2] = d_weights.narrow(0, weight.numel(), weight.size(0));
  return gradients;
}

}  // namespace

at::Tensor ReferenceShortConvolution(const ShortConvolutionArgs& args) {
  Check(args);
  const at::Tensor& x = args.x;
  const std::int64_t seq_len = x.size(1);
  const std::int64_t width = args.weight.size(1);
  const at::Tensor padded = at::constant_pad_nd(x, {0, 0, width - 1, 0});
  const at::Tensor taps = args.weight.to(x.scalar_type()).t();  // [W,C]
  at::Tensor y = padded.narrow(1, 0, seq_len) * taps[0];
  for (std::int64_t m = 1; m < width; ++m) {
    y = at::addcmul(y, padded.narrow(1, m, seq_len), taps[m]);
  }
  if (args.bias.defined()) y = y + args.bias.to(x.scalar_type());
  if (args.silu) y = at::silu(y);
  if (args.norm_channels == 0) return y;
  const at::Tensor heads = y.narrow(-1, 0, args.norm_channels).unflatten(-1, {-1, args.norm_dim});
  const at::Tensor wide = heads.to(c10::promoteTypes(x.scalar_type(), at::kFloat));
  const at::Tensor scale = wide.square().sum(-1, /*keepdim=*/true).add(args.norm_eps).rsqrt();
  const at::Tensor rest = y.narrow(-1, args.norm_channels, x.size(2) - args.norm_channels);
  return at::cat({(wide * scale).to(x.scalar_type()).flatten(-2), rest}, -1);
}

at::Tensor ShortConvolution(const ShortConvolutionArgs& args, ExecutionPath path) {
  Check(args);
  if (!RunsByKernels("short_convolution", path, Refusal(args), {args.x, args.weight, args.bias})) {
    return ReferenceShortConvolution(args);
  }
  const at::Tensor x = AlignedRows(args.x);
  const ShortConvolutionSizes sizes = SizesOf(args);
  const at::Tensor y = at::empty(x.sizes(), x.options());
  OnDeviceOf(x, "ShortConvolution", [&](CUstream_st* stream) {
    return LaunchShortConvolutionForward({.sizes = sizes,
                                          .x = RowsOf(x),
                                          .weight = FloatsOf(args.weight),
                                          .bias = FloatsOf(args.bias),
                                          .y = MutableRowsOf(y)},
                                         stream);
  });
  const std::vector<at::Tensor> inputs = {x, args.weight, args.bias};
  SetBackward("ShortConvolution", inputs, {y}, inputs,
              [sizes](const BackwardArgs& backward) { return Backward(backward, sizes); });
  return y;
}

}  // namespace mixerbench::kernels
