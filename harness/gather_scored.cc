// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "harness/batch.h"

namespace mixerbench::harness {
namespace {

class GatherRows final : public torch::autograd::Function<GatherRows> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& positions, const at::Tensor& entries) {
    context->save_for_backward({entries});
    context->saved_data["batch_size"] = x.size(0);
    return x.flatten(0, 1).index_select(0, positions);
  }

  // A gather again: each row of x takes the gradient of its entry, or the row of zeros after them.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor& gradient = gradients[0];
    const at::Tensor padded =
        at::cat({gradient, at::zeros({1, gradient.size(1)}, gradient.options())});
    const at::Tensor entries = context->get_saved_variables()[0];
    const std::int64_t batch_size = context->saved_data["batch_size"].toInt();
    return {padded.index_select(0, entries).unflatten(0, {batch_size, -1}), {}, {}};
  }
};

}  // namespace

at::Tensor GatherScored(const at::Tensor& x, const ScoredRows& scored) {
  return GatherRows::apply(x, scored.positions, scored.entries);
}

}  // namespace mixerbench::harness
