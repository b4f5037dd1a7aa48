// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/direct_convolution.h"

#include <algorithm>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/convolution/direct_convolution_cuda.h"
#include "kernels/device/dispatch.h"
#include "kernels/device/launch.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels {
namespace {

// Outputs of more taps, on average over the inputs, are left to transforms (direct_convolution.md).
constexpr std::int64_t kMaxTaps = 1024;
// Of the gradient of the filter, so that sums over sequences fill the GPU.
constexpr std::int64_t kMinBlocks = 1024;

std::string Refusal(const at::Tensor& u, const at::Tensor& filter) {
  std::string reason = DeviceRefusal(u);
  if (!reason.empty()) return reason;
  return u.scalar_type() == at::kFloat && filter.scalar_type() == at::kFloat ? ""
                                                                             : "is not in fp32";
}

ConstSeries SeriesOf(const at::Tensor& x) {  // [B,T,D]
  return {x.const_data_ptr<float>(), static_cast<int>(x.size(1)), x.stride(1), x.stride(0)};
}

Series MutableSeriesOf(const at::Tensor& x) {
  return {x.mutable_data_ptr<float>(), static_cast<int>(x.size(1)), x.stride(1), x.stride(0)};
}

template <typename AnySeries>
AnySeries Backwards(const AnySeries& series) {
  return {series.data + (series.length - 1) * series.step_stride, series.length,
          -series.step_stride, series.sequence_stride};
}

// The filter [L,D] is the same for all sequences.
ConstSeries TapsOf(const at::Tensor& filter) {
  return {filter.const_data_ptr<float>(), static_cast<int>(filter.size(0)), filter.stride(0), 0};
}

at::Tensor WithAdjacentChannels(const at::Tensor& x) {
  return x.stride(-1) == 1 ? x : x.contiguous();
}

void Run(const at::Tensor& u, std::string_view function, const LagSumsArgs& args) {
  OnDeviceOf(u, function, [&](CUstream_st* stream) { return LaunchLagSums(args, stream); });
}

LagSumsArgs ArgsOf(const at::Tensor& u) {
  return {.num_sequences = static_cast<int>(u.size(0)),
          .num_channels = static_cast<int>(u.size(2))};
}

// du_s = sum_t filter_{t-s} dy_t: in time that runs backwards, the same convolution of dy.
at::Tensor InputGradient(const at::Tensor& u, const at::Tensor& filter, const at::Tensor& dy) {
  const at::Tensor du = at::empty(u.sizes(), u.options());
  LagSumsArgs args = ArgsOf(u);
  args.input = Backwards(SeriesOf(dy));
  args.taps = TapsOf(filter);
  args.out = Backwards(MutableSeriesOf(du));
  Run(u, "DirectConvolution gradient of u", args);
  return du;
}

// dfilter_l = sum_{b,t} dy_t u_{t-l}: with dy and lags that run backwards, u takes the place of
// taps.
at::Tensor FilterGradient(const at::Tensor& u, const at::Tensor& filter, const at::Tensor& dy) {
  const std::int64_t batch_size = u.size(0), channels = u.size(2), num_taps = filter.size(0);
  const auto blocks = [](std::int64_t items, std::int64_t per_block) {
    return (items + per_block - 1) / per_block;
  };
  const std::int64_t blocks_of_part =
      blocks(channels, kLagSumChannels) * blocks(num_taps, kLagSumOutputs);
  const std::int64_t per_part =
      blocks(batch_size, std::min(batch_size, blocks(kMinBlocks, blocks_of_part)));
  const at::Tensor parts =
      at::empty({blocks(batch_size, per_part), num_taps, channels}, u.options());
  const at::Tensor dfilter = at::empty({num_taps, channels}, u.options());
  LagSumsArgs args = ArgsOf(u);
  args.shift = static_cast<int>(u.size(1) - num_taps);
  args.input = Backwards(SeriesOf(dy));
  args.taps = SeriesOf(u);
  args.out = Backwards(MutableSeriesOf(parts));
  args.sequences_per_part = static_cast<int>(per_part);
  args.total = dfilter.mutable_data_ptr<float>();
  Run(u, "DirectConvolution gradient of the filter", args);
  return dfilter;
}

at::Tensor Reference(const at::Tensor& u, const at::Tensor& filter, std::int64_t num_outputs) {
  const std::int64_t length = u.size(1);
  const auto options = filter.options().dtype(at::kLong).requires_grad(false);
  const at::Tensor source = at::arange(length, options);  // [S]
  const at::Tensor target = at::arange(length - num_outputs, length, options).unsqueeze(1);
  const at::Tensor lag = target - source;  // [T,S]
  const at::Tensor toeplitz = filter.index_select(0, lag.clamp(0, filter.size(0) - 1).flatten())
                                  .view({num_outputs, length, -1}) *
                              ((lag >= 0) & (lag < filter.size(0))).unsqueeze(-1);  // [T,S,D]
  return at::einsum("tsd,bsd->btd", {toeplitz, u});
}

}  // namespace

at::Tensor DirectConvolution(const at::Tensor& u, const at::Tensor& filter,
                             std::int64_t num_outputs, ExecutionPath path) {
  Require(u.dim() == 3 && filter.dim() == 2 && filter.size(1) == u.size(2) &&
              filter.size(0) <= u.size(1),
          "direct convolution: u is [B,S,D], the filter [L,D] with L <= S");
  Require(1 <= num_outputs && num_outputs <= u.size(1),
          "direct convolution: some of the tokens are outputs");
  if (!RunsByKernels("direct_convolution", path, Refusal(u, filter), {u, filter})) {
    return Reference(u, filter, num_outputs);
  }
  const at::Tensor input = WithAdjacentChannels(u);
  const at::Tensor taps = WithAdjacentChannels(filter);
  const at::Tensor y = at::empty({u.size(0), num_outputs, u.size(2)}, u.options());
  LagSumsArgs args = ArgsOf(input);
  args.shift = static_cast<int>(u.size(1) - num_outputs);
  args.input = SeriesOf(input);
  args.taps = TapsOf(taps);
  args.out = MutableSeriesOf(y);
  Run(input, "DirectConvolution", args);
  SetBackward("DirectConvolution", {input, taps}, {y}, {input, taps},
              [](const BackwardArgs& backward) -> std::vector<at::Tensor> {
                const at::Tensor dy = WithAdjacentChannels(backward.grads[0]);
                const auto& saved = backward.saved;
                std::vector<at::Tensor> gradients(2);
                if (backward.wanted[0]) gradients[0] = InputGradient(saved[0], saved[1], dy);
                if (backward.wanted[1]) gradients[1] = FilterGradient(saved[0], saved[1], dy);
                return gradients;
              });
  return y;
}

bool PrefersDirectConvolution(const at::Tensor& u, const at::Tensor& filter,
                              std::int64_t num_outputs) {
  return Refusal(u, filter).empty() && num_outputs * filter.size(0) <= kMaxTaps * u.size(1);
}

}  // namespace mixerbench::kernels
