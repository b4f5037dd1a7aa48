// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/output_norm.h"

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "base/check.h"
#include "kernels/device/dispatch.h"
#include "kernels/device/launch.h"
#include "kernels/layout/columns.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels {
namespace {

void Check(const OutputNormArgs& args) {
  Require(args.x.dim() == 4, "the output of heads is [B,T,H,V]");
  Require(args.gate.defined() == (args.activation != GateActivation::kNone),
          "a gated norm takes a gate, others do not");
  Require(!args.gate.defined() || args.gate.sizes() == args.x.sizes(),
          "a gate has the shape of what it multiplies");
}

std::string Refusal(const OutputNormArgs& args) {
  std::string reason = DeviceRefusal(args.x);
  if (!reason.empty()) return reason;
  if (args.weight.scalar_type() != at::kFloat) return "weights are not fp32";
  if (args.gate.defined() && args.gate.scalar_type() != args.x.scalar_type()) {
    return "the gate has another dtype";
  }
  const std::int64_t head_dim = args.x.size(3);
  if (!OutputNormSupportsWidth(head_dim)) {
    return "no kernel for heads of " + std::to_string(head_dim) + " channels";
  }
  if (!OutputNormSupportsCount(args.x.size(0) * args.x.size(1), args.x.size(2))) {
    return "more than 2^" + std::to_string(kOutputNormLog2MaxHeads) + " heads of all tokens";
  }
  return {};
}

// [B,T,H,V] -> [B,T,H V] with aligned rows; undefined stays.
at::Tensor TokenRows(const at::Tensor& x) { return x.defined() ? AlignedRows(x.flatten(2)) : x; }

// saved: x and gate as token rows, weight.
std::vector<at::Tensor> Backward(const BackwardArgs& args, const OutputNormSizes& sizes) {
  const at::Tensor& x = args.saved[0];
  const at::Tensor& gate = args.saved[1];
  const at::Tensor d_y = AlignedRows(args.grads[0].flatten(2));
  at::Tensor d_x;
  at::Tensor d_gate;
  if (args.wanted[0]) d_x = at::empty(x.sizes(), x.options());
  if (args.wanted[1]) d_gate = EmptyTogether({gate})[0];
  const auto floats = args.saved[2].options().requires_grad(false);
  const at::Tensor partials = at::empty({OutputNormPartials(sizes), sizes.head_dim}, floats);
  const at::Tensor d_weight = at::empty({sizes.head_dim}, floats);
  OnDeviceOf(x, "OutputNorm backward", [&](CUstream_st* stream) {
    return LaunchOutputNormBackward({.sizes = sizes,
                                     .x = RowsOf(x),
                                     .gate = RowsOf(gate),
                                     .weight = FloatsOf(args.saved[2]),
                                     .d_y = RowsOf(d_y),
                                     .d_x = MutableRowsOf(d_x),
                                     .d_gate = MutableRowsOf(d_gate),
                                     .partials = MutableFloatsOf(partials),
                                     .d_weight = MutableFloatsOf(d_weight)},
                                    stream);
  });
  return {d_x, d_gate, d_weight};
}

}  // namespace

at::Tensor ReferenceOutputNorm(const OutputNormArgs& args) {
  Check(args);
  const auto norm = [&](const at::Tensor& x) {
    return at::rms_norm(x, args.weight.sizes(), args.weight.to(x.scalar_type()), args.eps);
  };
  if (!args.gate.defined()) return norm(args.x);
  const at::Tensor factor =
      args.activation == GateActivation::kSilu ? at::silu(args.gate) : at::sigmoid(args.gate);
  return args.gate_before_norm ? norm(args.x * factor) : norm(args.x) * factor;
}

at::Tensor OutputNorm(const OutputNormArgs& args, ExecutionPath path) {
  Check(args);
  if (!RunsByKernels("output_norm", path, Refusal(args), {args.x, args.gate, args.weight})) {
    return ReferenceOutputNorm(args);
  }
  const at::Tensor x = TokenRows(args.x);
  const at::Tensor gate = TokenRows(args.gate);
  const OutputNormSizes sizes{.num_tokens = args.x.size(0) * args.x.size(1),
                              .num_heads = static_cast<int>(args.x.size(2)),
                              .head_dim = static_cast<int>(args.x.size(3)),
                              .eps = static_cast<float>(args.eps),
                              .activation = args.activation,
                              .gate_before_norm = args.gate_before_norm};
  const at::Tensor y = at::empty(x.sizes(), x.options());
  OnDeviceOf(x, "OutputNorm", [&](CUstream_st* stream) {
    return LaunchOutputNormForward({.sizes = sizes,
                                    .x = RowsOf(x),
                                    .gate = RowsOf(gate),
                                    .weight = FloatsOf(args.weight),
                                    .y = MutableRowsOf(y)},
                                   stream);
  });
  const std::vector<at::Tensor> inputs = {x, gate, args.weight};
  SetBackward("OutputNorm", inputs, {y}, inputs,
              [sizes](const BackwardArgs& backward) { return Backward(backward, sizes); });
  return y.view(args.x.sizes());
}

}  // namespace mixerbench::kernels
