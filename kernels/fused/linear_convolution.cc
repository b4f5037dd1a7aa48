// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/linear_convolution.h"

#include <cstdint>

#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/fused/dispatch.h"
#include "kernels/fused/hopper_device.h"
#include "kernels/fused/launch.h"
#include "kernels/fused/linear_convolution_device.h"
#include "kernels/fused/linear_product.h"

namespace mixerbench::kernels::fused {
namespace {

// Both matrices are undefined when one kernel cannot form them.
struct BothMatrices {
  at::Tensor projected;  // [B T, out]
  at::Tensor convolved;  // [B,T,C]
};

// Of x [B T, in] in bf16, B sequences.
BothMatrices FormBoth(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const ShortConvolutionArgs& convolution, std::int64_t batch_size) {
  const std::int64_t seq_len = x.size(0) / batch_size;
  const std::int64_t channels = convolution.weight.size(0);
  const LinearConvolutionSizes sizes = {
      .product = {.num_rows = x.size(0),
                  .in = static_cast<int>(x.size(1)),
                  .out = static_cast<int>(weight.size(0))},
      .convolution = ShortConvolutionSizesOf(convolution, batch_size, seq_len)};
  if (!LinearConvolutionTakes(sizes) || !IsHopper(x.get_device()) || !HasTiles(x) ||
      !HasTiles(weight) || convolution.bias.defined() ||
      convolution.weight.scalar_type() != at::kFloat) {
    return {};
  }
  BothMatrices both = {at::empty({x.size(0), weight.size(0)}, x.options()),
                       at::empty({batch_size, seq_len, channels}, x.options())};
  OnDeviceOf(x, "LinearConvolution", [&](CUstream_st* stream) {
    return LaunchLinearConvolution(
        {.sizes = sizes,
         .x = RowsOf(x),
         .weight = RowsOf(weight),
         .bias = RowsOf(bias, static_cast<std::int64_t>(x.element_size())).data,
         .taps = FloatsOf(convolution.weight),
         .projected = MutableRowsOf(both.projected),
         .convolved = MutableRowsOf(both.convolved)},
        stream);
  });
  return both;
}

}  // namespace

ConvolvedColumns LinearConvolution(const at::Tensor& x, const at::Tensor& weight,
                                   const at::Tensor& bias, const std::vector<ColumnBlock>& blocks,
                                   const ShortConvolutionArgs& convolution,
                                   const RowSelection* rows, ExecutionPath path,
                                   const NarrowParameters& narrow) {
  Require(x.dim() == 3 && !convolution.x.defined() && !blocks.empty() && !blocks.front().at_rows &&
              convolution.weight.dim() == 2 && convolution.weight.size(0) == blocks.front().size,
          "linear convolution: x is [B,T,in], the first block is convolved, all rows of it");
  ConvolvedColumns result;
  const auto form = [&](const at::Tensor& x_rows, const at::Tensor& weight_rows,
                        const at::Tensor& bias_rows) {
    BothMatrices both = FormBoth(x_rows, weight_rows, bias_rows, convolution, x.size(0));
    result.convolved = both.convolved;
    return both.projected;
  };
  result.columns = LinearColumnsBy(form, x, weight, bias, blocks, rows, path, narrow);
  ShortConvolutionArgs args = convolution;
  args.x = result.columns.front();
  if (result.convolved.defined()) {
    RecordDispatch("linear_convolution", path, "", {x, weight, bias});
    RecordShortConvolution(args, result.convolved);
  } else {
    result.convolved = ShortConvolution(args, path);
  }
  return result;
}

}  // namespace mixerbench::kernels::fused
