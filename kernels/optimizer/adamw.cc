// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/adamw.h"

#include <cstddef>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include "kernels/device/dispatch.h"
#include "kernels/device/launch.h"
#include "kernels/optimizer/adamw_cuda.h"

namespace mixerbench::kernels {
namespace {

std::string Refusal(const std::vector<AdamWTensor>& tensors) {
  const auto is_dense = [](const at::Tensor& x) {
    return x.scalar_type() == at::kFloat && x.is_contiguous();
  };
  for (const AdamWTensor& tensor : tensors) {
    if (!RunsOnDevice(tensor.parameter)) return DeviceRefusal(tensor.parameter);
    if (!is_dense(tensor.parameter) || !is_dense(tensor.gradient) ||
        !is_dense(tensor.first_moment) || !is_dense(tensor.second_moment) ||
        (tensor.narrow.defined() && !tensor.narrow.is_contiguous())) {
      return "a parameter or its gradient is not dense fp32";
    }
  }
  return {};
}

void ReferenceAdamWStep(const std::vector<AdamWTensor>& tensors, const at::Tensor& learning_rate,
                        const at::Tensor& step, const AdamWOptions& options) {
  at::Tensor scale;
  if (options.grad_clip > 0) {
    std::vector<at::Tensor> gradients;
    for (const auto& tensor : tensors) gradients.push_back(tensor.gradient);
    const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)));
    scale = (options.grad_clip / (norm + 1e-6)).clamp_max(1.0);
  }
  for (const auto& tensor : tensors) {
    const at::Tensor gradient = scale.defined() ? tensor.gradient * scale : tensor.gradient;
    const at::Tensor rate =
        tensor.rate_scale == 1 ? learning_rate : learning_rate * tensor.rate_scale;
    at::_fused_adamw_(tensor.parameter, gradient, tensor.first_moment, tensor.second_moment, {},
                      step, rate, options.beta1, options.beta2, tensor.weight_decay, options.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
    if (tensor.narrow.defined()) tensor.narrow.copy_(tensor.parameter);
  }
}

// Tables of at most kMaxAdamWTensors tensors.
std::vector<AdamWArgs> Tables(const std::vector<AdamWTensor>& tensors,
                              const at::Tensor& learning_rate, const at::Tensor& step,
                              const AdamWOptions& options) {
  std::vector<AdamWArgs> tables;
  for (const auto& tensor : tensors) {
    if (tables.empty() || tables.back().num_tensors == kMaxAdamWTensors) {
      AdamWArgs& table = tables.emplace_back();
      table.learning_rate = FloatsOf(learning_rate);
      table.step = FloatsOf(step);
      table.beta1 = options.beta1;
      table.beta2 = options.beta2;
      table.eps = static_cast<float>(options.eps);
    }
    tables.back().tensors[tables.back().num_tensors++] = {
        .parameter = MutableFloatsOf(tensor.parameter),
        .gradient = FloatsOf(tensor.gradient),
        .first_moment = MutableFloatsOf(tensor.first_moment),
        .second_moment = MutableFloatsOf(tensor.second_moment),
        .narrow = tensor.narrow.defined() ? tensor.narrow.mutable_data_ptr() : nullptr,
        .size = tensor.parameter.numel(),
        .weight_decay = static_cast<float>(tensor.weight_decay),
        .rate_scale = static_cast<float>(tensor.rate_scale)};
  }
  return tables;
}

// min(1, max_norm / norm) on the device.
at::Tensor ClipScale(const std::vector<AdamWArgs>& tables, double max_norm,
                     const at::Tensor& like) {
  int num_partials = 0;
  for (const AdamWArgs& table : tables) num_partials += SumOfSquaresPartials(table);
  const at::Tensor partials = at::empty({num_partials}, like.options().requires_grad(false));
  const at::Tensor scale = at::empty({}, partials.options());
  float* next = MutableFloatsOf(partials);
  for (const AdamWArgs& table : tables) {
    OnDeviceOf(like, "AdamW",
               [&](CUstream_st* stream) { return LaunchSumOfSquares(table, next, stream); });
    next += SumOfSquaresPartials(table);
  }
  OnDeviceOf(like, "AdamW", [&](CUstream_st* stream) {
    return LaunchClipScale(FloatsOf(partials), num_partials, static_cast<float>(max_norm),
                           MutableFloatsOf(scale), stream);
  });
  return scale;
}

}  // namespace

void AdamWStep(const std::vector<AdamWTensor>& tensors, const at::Tensor& learning_rate,
               const at::Tensor& step, const AdamWOptions& options, ExecutionPath path) {
  const at::NoGradGuard no_grad;
  if (tensors.empty()) return;
  if (!RunsByKernels("adamw", path, Refusal(tensors), {})) {
    ReferenceAdamWStep(tensors, learning_rate, step, options);
    return;
  }
  auto tables = Tables(tensors, learning_rate, step, options);
  const at::Tensor& like = tensors.front().parameter;
  at::Tensor scale;
  if (options.grad_clip > 0) scale = ClipScale(tables, options.grad_clip, like);
  for (AdamWArgs& table : tables) {
    table.gradient_scale = FloatsOf(scale);
    OnDeviceOf(like, "AdamW", [&](CUstream_st* stream) { return LaunchAdamW(table, stream); });
  }
}

}  // namespace mixerbench::kernels
