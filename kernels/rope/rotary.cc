// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/rotary.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "base/check.h"
#include "kernels/device/dispatch.h"
#include "kernels/device/launch.h"
#include "kernels/layout/columns.h"
#include "kernels/rope/rotary_cuda.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels {
namespace {

at::Tensor Reference(const at::Tensor& x, std::int64_t first_position, std::int64_t rotary_dim,
                     double base) {
  const std::int64_t half = rotary_dim / 2;
  const at::Tensor wide = x.to(c10::promoteTypes(x.scalar_type(), at::kFloat));
  const auto options = wide.options().dtype(at::kDouble).requires_grad(false);
  const at::Tensor position = at::arange(first_position, first_position + x.size(1), options);
  const at::Tensor frequency =
      (at::arange(half, options) * (-2 * std::log(base) / static_cast<double>(rotary_dim))).exp();
  const at::Tensor angle = position.unsqueeze(1) * frequency;              // [T,half]
  const at::Tensor cos = angle.cos().to(wide.scalar_type()).unsqueeze(1);  // [T,1,half]
  const at::Tensor sin = angle.sin().to(wide.scalar_type()).unsqueeze(1);
  const at::Tensor first = wide.narrow(-1, 0, half);
  const at::Tensor second = wide.narrow(-1, half, half);
  return at::cat({first * cos - second * sin, second * cos + first * sin,
                  wide.narrow(-1, rotary_dim, x.size(3) - rotary_dim)},
                 -1)
      .to(x.scalar_type());
}

// A thread moves four channels at a time.
std::int64_t AlignmentOf(const at::Tensor& x) {
  return 4 * static_cast<std::int64_t>(x.element_size());
}

// x and y [B,T,H*K], rows aligned; `args` has everything but them.
void Turn(RotaryArgs args, const at::Tensor& x, const at::Tensor& y) {
  args.x = RowsOf(x, AlignmentOf(x));
  args.y = MutableRowsOf(y, AlignmentOf(y));
  OnDeviceOf(x, "RotateHalf", [&](CUstream_st* stream) { return LaunchRotary(args, stream); });
}

}  // namespace

at::Tensor RotateHalf(const at::Tensor& x, std::int64_t first_position, std::int64_t rotary_dim,
                      ExecutionPath path, double base) {
  Require(x.dim() == 4 && rotary_dim % 2 == 0 && rotary_dim <= x.size(3),
          "rotary: x is [B,T,H,K] and rotary_dim is even and at most K");
  std::string refusal = DeviceRefusal(x);
  if (refusal.empty() && !RotarySupports(x.size(3), rotary_dim)) {
    refusal = "no kernel for " + std::to_string(rotary_dim) + " of " + std::to_string(x.size(3)) +
              " channels";
  }
  if (!RunsByKernels("rotary", path, refusal, {x})) {
    return Reference(x, first_position, rotary_dim, base);
  }
  RotaryArgs args{.batch_size = x.size(0),
                  .seq_len = static_cast<int>(x.size(1)),
                  .num_heads = static_cast<int>(x.size(2)),
                  .head_dim = static_cast<int>(x.size(3)),
                  .rotary_dim = static_cast<int>(rotary_dim),
                  .first_position = static_cast<double>(first_position),
                  .base = base,
                  .x = {},
                  .y = {}};
  const at::Tensor y = at::empty(x.sizes(), x.options().requires_grad(false));
  {
    const at::NoGradGuard no_grad;
    Turn(args, AlignedRows(x.flatten(2), AlignmentOf(x)), y.flatten(2));
  }
  args.back = true;
  // Of x only the place of its gradient is wanted.
  SetBackward("RotateHalf", {x}, {y}, {x}, [args](const BackwardArgs& backward) {
    const at::Tensor& d_y = backward.grads[0];
    at::Tensor d_x = EmptyTogether({backward.saved[0]})[0];
    if (!HasAlignedRows(d_x.flatten(2), AlignmentOf(d_x))) d_x = at::empty_like(d_y);
    Turn(args, AlignedRows(d_y.flatten(2), AlignmentOf(d_y)), d_x.flatten(2));
    return std::vector<at::Tensor>{d_x};
  });
  return y;
}

}  // namespace mixerbench::kernels
