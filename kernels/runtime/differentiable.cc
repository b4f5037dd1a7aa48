// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/differentiable.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "base/check.h"

namespace mixerbench::kernels {
namespace {

class FusedNode final : public torch::autograd::Node {
 public:
  FusedNode(std::string name, torch::autograd::edge_list edges, BackwardFunction backward,
            std::shared_ptr<NodeData> data)
      : Node(std::move(edges)),
        name_(std::move(name)),
        backward_(std::move(backward)),
        data_(std::move(data)) {}

  // After the outputs know this node: an output is then saved without keeping the node alive.
  void Save(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& outputs) {
    for (const at::Tensor& tensor : tensors) {
      const bool is_output = std::any_of(outputs.begin(), outputs.end(), [&](const auto& output) {
        return output.is_same(tensor);
      });
      saved_.emplace_back(tensor, is_output);
    }
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    Require(!at::GradMode::is_enabled(), name_ + " has no second derivative");
    BackwardArgs args;
    args.grads = std::move(grads);
    for (const auto& variable : saved_) args.saved.push_back(variable.unpack(getptr()));
    for (std::uint32_t i = 0; i < num_outputs(); ++i) {
      args.wanted.push_back(task_should_compute_output(i));
    }
    auto result = backward_(args);
    Require(result.size() == num_outputs(), name_ + " returns one gradient for each input");
    return result;
  }

  void release_variables() override {
    for (auto& variable : saved_) variable.reset_data();
  }

  std::string name() const override { return name_; }

  const std::shared_ptr<NodeData>& data() const { return data_; }

 private:
  std::string name_;
  BackwardFunction backward_;
  std::shared_ptr<NodeData> data_;
  std::vector<torch::autograd::SavedVariable> saved_;
};

}  // namespace

bool NeedsBackward(const std::vector<at::Tensor>& inputs) {
  return at::GradMode::is_enabled() &&
         std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& input) {
           return input.defined() && input.requires_grad();
         });
}

void SetBackward(std::string name, const std::vector<at::Tensor>& inputs,
                 const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& saved,
                 BackwardFunction backward, std::shared_ptr<NodeData> data) {
  if (!NeedsBackward(inputs)) return;
  const std::shared_ptr<FusedNode> node(
      new FusedNode(std::move(name), torch::autograd::collect_next_edges(inputs),
                    std::move(backward), std::move(data)),
      torch::autograd::deleteNode);  // frees long graphs without recursion
  torch::autograd::set_history(outputs, node);
  node->Save(saved, outputs);
}

std::shared_ptr<NodeData> NodeDataOf(const at::Tensor& x) {
  const at::TensorBase& tensor = x;
  const at::TensorBase& recorded = tensor.is_view() ? tensor._base() : tensor;
  const auto* node = dynamic_cast<const FusedNode*>(recorded.grad_fn().get());
  return node != nullptr ? node->data() : nullptr;
}

}  // namespace mixerbench::kernels
