// SPDX-License-Identifier: Apache-2.0
#include "kernels/loss/linear_cross_entropy.h"

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/device/dispatch.h"
#include "kernels/device/hopper_cuda.h"
#include "kernels/device/launch.h"
#include "kernels/linear/linear.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/linear_cross_entropy_cuda.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

LinearCrossEntropySizes SizesOf(const at::Tensor& hidden, const at::Tensor& weight) {
  return {.num_rows = hidden.size(0),
          .vocab_size = static_cast<int>(weight.size(0)),
          .width = static_cast<int>(weight.size(1))};
}

std::string Refusal(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                    const at::Tensor& row_weights) {
  std::string reason = DeviceRefusal(hidden);
  if (!reason.empty()) return reason;
  if (row_weights.defined()) return "no kernel for weighted rows";
  if (hidden.scalar_type() != at::kBFloat16 || weight.scalar_type() != at::kFloat) {
    return "for bf16 hidden states and fp32 weights";
  }
  if (bias.defined()) return "no kernel for a head with a bias";
  if (!NeedsBackward({hidden, weight})) return "no gradient is wanted";
  if (!IsHopper(hidden.get_device())) return "needs compute capability 9.0";
  if (LinearCrossEntropySupports(SizesOf(hidden, weight))) return {};
  return "no kernel for " + std::to_string(weight.size(0)) + " words of width " +
         std::to_string(weight.size(1));
}

// What the forward pass leaves for the backward pass, as LinearCrossEntropyArgs has it.
enum Saved { kHidden, kWeight, kTargets, kInverseCount, kPartSums, kParts, kRows, kRowTargets };

LinearCrossEntropyArgs ArgsOf(const std::vector<at::Tensor>& saved) {
  const ConstRows hidden = RowsOf(saved[kHidden]);
  const ConstRows weight = RowsOf(saved[kWeight]);
  return {.sizes = SizesOf(saved[kHidden], saved[kWeight]),
          .hidden = hidden.data,
          .hidden_stride = hidden.stride,
          .weight = weight.data,
          .weight_stride = weight.stride,
          .targets = saved[kTargets].const_data_ptr<std::int64_t>(),
          .inverse_count = MutableFloatsOf(saved[kInverseCount]),
          .part_sums = MutableFloatsOf(saved[kPartSums]),
          .part_shifts = MutableFloatsOf(saved[kParts].select(0, 0)),
          .part_totals = MutableFloatsOf(saved[kParts].select(0, 1)),
          .target_logits = MutableFloatsOf(saved[kRows].select(0, 0)),
          .log_totals = MutableFloatsOf(saved[kRows].select(0, 1)),
          .row_targets = saved[kRowTargets].mutable_data_ptr<int>()};
}

std::vector<at::Tensor> Backward(const BackwardArgs& backward) {
  const at::Tensor& hidden = backward.saved[kHidden];
  const at::Tensor& weight = backward.saved[kWeight];
  const auto dense = hidden.options().requires_grad(false);
  // Both always: one kernel makes them.
  const std::vector<at::Tensor> gradients = {at::empty(hidden.sizes(), dense),
                                             at::empty(weight.sizes(), dense.dtype(at::kFloat))};
  LinearCrossEntropyArgs args = ArgsOf(backward.saved);
  args.d_loss = FloatsOf(backward.grads[0]);
  args.d_hidden = MutableRowsOf(gradients[0]).data;
  args.d_weight = MutableFloatsOf(gradients[1]);
  OnDeviceOf(hidden, "LinearCrossEntropy backward",
             [&](CUstream_st* stream) { return LaunchLinearCrossEntropyBackward(args, stream); });
  return gradients;
}

}  // namespace

at::Tensor LinearCrossEntropy(const at::Tensor& hidden, const at::Tensor& weight,
                              const at::Tensor& bias, const at::Tensor& targets, ExecutionPath path,
                              const ShadowWeights& narrow, const at::Tensor& row_weights) {
  Require(hidden.dim() == 2 && weight.dim() == 2 && hidden.size(1) == weight.size(1),
          "hidden states are [N,D], the head's weight [V,D]");
  RequireShape(targets, {hidden.size(0)}, "targets");
  Require(targets.scalar_type() == at::kLong, "targets are int64");
  if (row_weights.defined()) RequireShape(row_weights, {hidden.size(0)}, "weights of rows");
  if (!RunsByKernels("linear_cross_entropy", path, Refusal(hidden, weight, bias, row_weights),
                     {hidden, weight, bias})) {
    const at::Tensor logits = Linear(hidden, weight, bias, path, narrow);
    return row_weights.defined() ? WeightedCrossEntropy(logits, targets, row_weights)
                                 : SoftmaxCrossEntropy(logits, targets, path).loss;
  }
  const LinearCrossEntropyCut cut = CutLinearCrossEntropy(SizesOf(hidden, weight));
  const auto floats = hidden.options().requires_grad(false).dtype(at::kFloat);
  const at::Tensor loss = at::empty({}, floats);
  std::vector<at::Tensor> saved;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    saved = {AlignedRows(hidden),
             narrow.weight.defined() ? narrow.weight.narrow(0, 0, weight.size(0))
                                     : weight.to(at::kBFloat16),
             targets.contiguous(),
             at::empty({}, floats),
             at::empty({cut.num_parts, cut.padded_rows, hidden.size(1)}, floats),
             at::empty({2, cut.num_parts, cut.padded_rows}, floats),
             at::empty({2, cut.padded_rows}, floats),
             at::empty({cut.padded_rows}, floats.dtype(at::kInt))};
  }
  LinearCrossEntropyArgs args = ArgsOf(saved);
  args.loss = MutableFloatsOf(loss);
  OnDeviceOf(hidden, "LinearCrossEntropy",
             [&](CUstream_st* stream) { return LaunchLinearCrossEntropyForward(args, stream); });
  SetBackward("LinearCrossEntropy", {hidden, weight}, {loss}, saved, Backward);
  return loss;
}

}  // namespace mixerbench::kernels
