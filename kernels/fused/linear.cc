// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/linear.h"

#include <optional>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include "base/check.h"
#include "kernels/differentiable.h"
#include "kernels/fused/column_sum_device.h"
#include "kernels/fused/columns.h"
#include "kernels/fused/launch.h"

namespace mixerbench::kernels::fused {
namespace {

constexpr std::int64_t kAlignedElements = 8;  // 16 bytes of bf16

std::int64_t RoundUp(std::int64_t x) {
  return (x + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
}

bool CanLaunch(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return RunsOnDevice(x) && x.scalar_type() == at::kBFloat16 && x.numel() > 0 &&
         weight.scalar_type() == at::kFloat &&
         (!bias.defined() || bias.scalar_type() == at::kFloat);
}

// In bf16, with zeros after the last row up to a multiple of eight rows.
at::Tensor Narrowed(const at::Tensor& parameter) {
  const std::int64_t rows = parameter.size(0);
  if (rows == RoundUp(rows)) return parameter.to(at::kBFloat16);
  std::vector<std::int64_t> shape = parameter.sizes().vec();
  shape[0] = RoundUp(rows);
  const at::Tensor padded = at::empty(shape, parameter.options().dtype(at::kBFloat16));
  padded.narrow(0, 0, rows).copy_(parameter);
  padded.narrow(0, rows, shape[0] - rows).zero_();
  return padded;
}

at::Tensor ColumnSum(const at::Tensor& x) {
  const std::int64_t columns = x.size(1);
  const auto floats = x.options().dtype(at::kFloat);
  const int parts = ColumnSumPartials(x.size(0));
  const at::Tensor partials = at::empty({parts, columns}, floats);
  const at::Tensor sum = at::empty({columns}, floats);
  OnDeviceOf(x, "ColumnSum", [&](CUstream_st* stream) {
    return LaunchColumnSum({.num_rows = x.size(0),
                            .width = static_cast<int>(columns),
                            .x = RowsOf(x),
                            .partials = MutableFloatsOf(partials),
                            .sum = MutableFloatsOf(sum)},
                           stream);
  });
  return sum;
}

// saved: x [N,in], weight in bf16, padded as the output. The gradient of padding is zero.
std::vector<at::Tensor> Backward(const BackwardArgs& args, std::int64_t out) {
  const at::Tensor& x = args.saved[0];
  const at::Tensor d_y = AlignedRows(args.grads[0]);
  std::vector<at::Tensor> gradients(3);
  if (args.wanted[0]) gradients[0] = at::mm(d_y, args.saved[1]);
  if (args.wanted[1]) gradients[1] = at::mm(d_y.t(), x, at::kFloat).narrow(0, 0, out);
  if (args.wanted[2]) gradients[2] = ColumnSum(d_y).narrow(0, 0, out);
  return gradients;
}

// As LinearColumns' fast path, with columns of padding at the end: [N, RoundUp(out)].
at::Tensor PaddedLinear(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
  at::Tensor y;
  at::Tensor narrow_weight;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    narrow_weight = Narrowed(weight);
    y = bias.defined() ? at::addmm(Narrowed(bias), rows, narrow_weight.t())
                       : at::mm(rows, narrow_weight.t());
  }
  SetBackward("Linear", {rows, weight, bias}, {y}, {rows, narrow_weight},
              [out = weight.size(0)](const BackwardArgs& args) { return Backward(args, out); });
  return y;
}

}  // namespace

std::vector<at::Tensor> LinearColumns(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias, std::vector<std::int64_t> sizes,
                                      ExecutionPath path) {
  Require(weight.dim() == 2 && x.dim() >= 1 && x.size(-1) == weight.size(1),
          "linear: x is [..., in], the weight [out,in]");
  const at::ScalarType dtype = x.scalar_type();
  if (path == ExecutionPath::kReference || !CanLaunch(x, weight, bias)) {
    std::optional<at::Tensor> same_bias;
    if (bias.defined()) same_bias = bias.to(dtype);
    return SplitColumns(at::linear(x, weight.to(dtype), same_bias), sizes);
  }
  const at::Tensor y = PaddedLinear(x.reshape({-1, x.size(-1)}), weight, bias);
  const std::int64_t padding = y.size(1) - weight.size(0);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = y.size(1);
  if (padding > 0) sizes.push_back(padding);
  std::vector<at::Tensor> columns = SplitColumns(y.view(shape), sizes);
  if (padding > 0) columns.pop_back();
  return columns;
}

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  ExecutionPath path) {
  return LinearColumns(x, weight, bias, {weight.size(0)}, path).front();
}

}  // namespace mixerbench::kernels::fused
