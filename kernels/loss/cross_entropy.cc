// SPDX-License-Identifier: Apache-2.0
#include "kernels/loss/cross_entropy.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nll_loss.h>

#include "base/check.h"
#include "kernels/device/dispatch.h"
#include "kernels/device/launch.h"
#include "kernels/loss/cross_entropy_cuda.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels {
namespace {

at::Tensor AtLeastFloat(const at::Tensor& x) {
  return x.to(c10::promoteTypes(x.scalar_type(), at::kFloat));
}

// [N], 0 where a row does not count. Not by gather: what scatters its gradient in a fixed order
// copies strides from the CPU on the way, which the capture of a graph does not allow.
at::Tensor Nll(const at::Tensor& logits, const at::Tensor& targets) {
  return at::nll_loss(at::log_softmax(AtLeastFloat(logits), 1), targets.clamp_min(0), /*weight=*/{},
                      at::Reduction::None)
      .masked_fill(targets.lt(0), 0);
}

}  // namespace

CrossEntropyResult ReferenceSoftmaxCrossEntropy(const at::Tensor& logits,
                                                const at::Tensor& targets) {
  const at::Tensor nll = Nll(logits, targets);
  return {nll.sum() / targets.ge(0).sum(), nll.detach(), AtLeastFloat(logits).argmax(1)};
}

at::Tensor WeightedCrossEntropy(const at::Tensor& logits, const at::Tensor& targets,
                                const at::Tensor& weights) {
  return (Nll(logits, targets) * weights).sum() / targets.ge(0).sum();
}

CrossEntropyResult SoftmaxCrossEntropy(const at::Tensor& logits, const at::Tensor& targets,
                                       ExecutionPath path) {
  Require(logits.dim() == 2 && logits.numel() > 0, "logits are [N,V]");
  RequireShape(targets, {logits.size(0)}, "targets");
  Require(targets.scalar_type() == at::kLong, "targets are int64");
  if (!RunsByKernels("softmax_cross_entropy", path, DeviceRefusal(logits), {logits})) {
    return ReferenceSoftmaxCrossEntropy(logits, targets);
  }
  const at::Tensor rows = logits.stride(1) == 1 ? logits : logits.contiguous();
  const at::Tensor dense_targets = targets.contiguous();
  const auto floats = rows.options().dtype(at::kFloat);
  const CrossEntropyResult result{at::empty({}, floats), at::empty({rows.size(0)}, floats),
                                  at::empty({rows.size(0)}, floats.dtype(at::kLong))};
  at::Tensor d_logits;
  if (NeedsBackward({rows})) d_logits = at::empty(rows.sizes(), rows.options());
  const at::Tensor inverse_count = at::empty({}, floats);
  OnDeviceOf(rows, "SoftmaxCrossEntropy", [&](CUstream_st* stream) {
    return LaunchCrossEntropyForward(
        {.logits = {rows.const_data_ptr(), ElementOf(rows), rows.stride(0)},
         .num_rows = rows.size(0),
         .vocab_size = static_cast<int>(rows.size(1)),
         .targets = dense_targets.const_data_ptr<std::int64_t>(),
         .nll = MutableFloatsOf(result.nll),
         .predicted = result.predicted.mutable_data_ptr<std::int64_t>(),
         .loss = MutableFloatsOf(result.loss),
         .d_logits = d_logits.defined()
                         ? Rows{d_logits.mutable_data_ptr(), ElementOf(rows), rows.size(1)}
                         : Rows{},
         .inverse_count = MutableFloatsOf(inverse_count)},
        stream);
  });
  if (!d_logits.defined()) return result;
  SetBackward("SoftmaxCrossEntropy", {rows}, {result.loss}, {d_logits},
              [used = false](const BackwardArgs& args) mutable -> std::vector<at::Tensor> {
                Require(!used, "SoftmaxCrossEntropy scales its gradient in place, once");
                used = true;
                const at::Tensor& gradient = args.saved[0];
                const at::Tensor factor = args.grads[0].to(at::kFloat);
                OnDeviceOf(gradient, "SoftmaxCrossEntropy backward", [&](CUstream_st* stream) {
                  return LaunchScaleUnlessOne(gradient.mutable_data_ptr(), ElementOf(gradient),
                                              gradient.numel(), FloatsOf(factor), stream);
                });
                return {gradient};
              });
  return result;
}

}  // namespace mixerbench::kernels
