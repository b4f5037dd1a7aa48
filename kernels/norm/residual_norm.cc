// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/residual_norm.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>

#include "base/check.h"
#include "kernels/device/dispatch.h"
#include "kernels/device/launch.h"
#include "kernels/norm/residual_norm_cuda.h"
#include "kernels/runtime/differentiable.h"

namespace mixerbench::kernels {
namespace {

at::Tensor Apply(const Norm& norm, const at::Tensor& x) {
  const at::Tensor weight = norm.weight.to(x.scalar_type());
  if (!norm.bias.defined()) return at::rms_norm(x, weight.sizes(), weight, norm.eps);
  return at::layer_norm(x, weight.sizes(), weight, norm.bias.to(x.scalar_type()), norm.eps);
}

bool IsFloatOrAbsent(const at::Tensor& x) { return !x.defined() || x.scalar_type() == at::kFloat; }

at::ScalarType AtLeastFloat(const at::Tensor& x) {
  return c10::promoteTypes(x.scalar_type(), at::kFloat);
}

bool HasFloatWeights(const Norm& norm) {
  return norm.weight.scalar_type() == at::kFloat && IsFloatOrAbsent(norm.bias);
}

std::string Refusal(const ResidualNormArgs& args) {
  std::string reason = DeviceRefusal(args.added);
  if (!reason.empty()) return reason;
  if (!HasFloatWeights(args.norm) || (args.mid && !HasFloatWeights(*args.mid))) {
    return "weights are not fp32";
  }
  const std::int64_t width = args.added.size(-1);
  if (ResidualNormSupports(args.added.numel() / width, width)) return {};
  return "no kernel for rows of " + std::to_string(width);
}

NormWeights WeightsOf(const at::Tensor& weight, const at::Tensor& bias, double eps) {
  return {FloatsOf(weight), FloatsOf(bias), static_cast<float>(eps)};
}

// Inputs of the function, in this order.
enum Input { kResidual, kAdded, kNormWeight, kNormBias, kMidWeight, kMidBias, kNumInputs };
static_assert(kNumInputs - kNormWeight == kResidualNormWeights);

// Saved after the inputs: ScoredPositions::inverse, and the rows' means and scales.
constexpr std::size_t kInverse = kNumInputs;
constexpr std::size_t kStatistics = kNumInputs + 1;

const std::int64_t* IndicesOf(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<std::int64_t>() : nullptr;
}

std::vector<at::Tensor> Backward(const BackwardArgs& args, double eps, double mid_eps) {
  const auto& inputs = args.saved;
  const at::Tensor& added = inputs[kAdded];
  const auto floats = added.options().dtype(at::kFloat);
  const std::int64_t width = added.size(-1);
  const std::int64_t num_rows = added.numel() / width;
  const at::Tensor d_normalised = AlignedRows(args.grads[1]);
  const at::Tensor d_residual_out = AlignedRows(args.grads[0]);
  // One gradient serves both.
  at::Tensor d_sum;
  if (args.wanted[kResidual] || args.wanted[kAdded]) {
    d_sum = at::empty(added.sizes(), added.options());
  }

  const int parts = ResidualNormPartials(num_rows, static_cast<int>(width));
  const at::Tensor partials = at::empty({parts, kResidualNormWeights, width}, floats);
  const at::Tensor d_weights = at::empty({kResidualNormWeights, width}, floats);
  OnDeviceOf(added, "ResidualNorm backward", [&](CUstream_st* stream) {
    return LaunchResidualNormBackward(
        {.num_rows = num_rows,
         .width = static_cast<int>(width),
         .element = ElementOf(added),
         .residual = RowsOf(inputs[kResidual]),
         .added = RowsOf(added),
         .mid = WeightsOf(inputs[kMidWeight], inputs[kMidBias], mid_eps),
         .norm = WeightsOf(inputs[kNormWeight], inputs[kNormBias], eps),
         .scored = {.inverse = IndicesOf(inputs[kInverse]),
                    .num_scored = d_residual_out.defined() ? d_residual_out.size(0) : 0},
         .statistics = FloatsOf(inputs[kStatistics]),
         .d_residual_out = RowsOf(d_residual_out),
         .d_normalised = RowsOf(d_normalised),
         .d_sum = MutableRowsOf(d_sum),
         .partials = MutableFloatsOf(partials),
         .d_weights = MutableFloatsOf(d_weights)},
        stream);
  });

  std::vector<at::Tensor> gradients(kNumInputs);
  if (args.wanted[kResidual]) gradients[kResidual] = d_sum;
  if (args.wanted[kAdded]) gradients[kAdded] = d_sum;
  for (int i = kNormWeight; i < kNumInputs; ++i) {
    if (args.wanted[static_cast<std::size_t>(i)]) {
      gradients[static_cast<std::size_t>(i)] = d_weights.select(0, i - kNormWeight);
    }
  }
  return gradients;
}

}  // namespace

ResidualNormResult ReferenceResidualNorm(const ResidualNormArgs& args) {
  const at::ScalarType dtype = args.added.scalar_type();
  at::Tensor u = args.added.to(AtLeastFloat(args.added));
  if (args.residual.defined()) u = u + args.residual;
  if (args.mid) u = u + Apply(*args.mid, u);
  return {(args.scored == nullptr ? u : GatherRows(u, *args.scored, ExecutionPath::kReference))
              .to(dtype),
          Apply(args.norm, u).to(dtype)};
}

ResidualNormResult ResidualNorm(const ResidualNormArgs& args, ExecutionPath path) {
  Require(args.added.defined() && args.added.dim() >= 1 &&
              (!args.residual.defined() || (args.residual.sizes() == args.added.sizes() &&
                                            args.residual.dtype() == args.added.dtype())),
          "what is added has the shape and dtype of the residual stream [..., D]");
  const Norm mid = args.mid.value_or(Norm{});
  if (!RunsByKernels(
          "residual_norm", path, Refusal(args),
          {args.residual, args.added, args.norm.weight, args.norm.bias, mid.weight, mid.bias})) {
    return ReferenceResidualNorm(args);
  }
  const at::Tensor residual = AlignedRows(args.residual);
  const at::Tensor added = AlignedRows(args.added);
  const std::vector<at::Tensor> inputs = {residual,       added,      args.norm.weight,
                                          args.norm.bias, mid.weight, mid.bias};
  // Nothing added to nothing: the stream is the input, no copy is written.
  const bool unchanged = !residual.defined() && !args.mid && args.scored == nullptr;
  const auto options = added.options().requires_grad(false);
  const std::int64_t num_rows = added.numel() / added.size(-1);
  at::Tensor statistics;
  if (NeedsBackward(inputs)) {
    statistics = at::empty({num_rows, kResidualNormStatistics}, options.dtype(at::kFloat));
  }
  ResidualNormResult result;
  ScoredPositions scored;
  if (args.scored != nullptr) {
    scored = *args.scored;
    result.residual = at::empty({args.scored->positions.size(0), added.size(-1)}, options);
  } else {
    result.residual = unchanged ? added.variable_data() : at::empty(added.sizes(), options);
  }
  result.normalised = at::empty(added.sizes(), options);
  OnDeviceOf(added, "ResidualNorm", [&](CUstream_st* stream) {
    return LaunchResidualNormForward(
        {.num_rows = num_rows,
         .width = static_cast<int>(added.size(-1)),
         .element = ElementOf(added),
         .residual = RowsOf(residual),
         .added = RowsOf(added),
         .mid = WeightsOf(mid.weight, mid.bias, mid.eps),
         .norm = WeightsOf(args.norm.weight, args.norm.bias, args.norm.eps),
         .scored = {.inverse = IndicesOf(scored.inverse),
                    .positions = IndicesOf(scored.positions),
                    .num_scored = result.residual.size(0)},
         .residual_out = unchanged ? Rows{} : MutableRowsOf(result.residual),
         .normalised = MutableRowsOf(result.normalised),
         .statistics = MutableFloatsOf(statistics)},
        stream);
  });
  std::vector<at::Tensor> saved = inputs;
  saved.insert(saved.end(), {scored.inverse, statistics});
  SetBackward("ResidualNorm", inputs, {result.residual, result.normalised}, saved,
              [eps = args.norm.eps, mid_eps = mid.eps](const BackwardArgs& backward) {
                return Backward(backward, eps, mid_eps);
              });
  return result;
}

}  // namespace mixerbench::kernels
