// Gives tensors that were computed outside autograd a backward pass written by hand.
//
// One node type serves every fused function, so that only differentiable.cc pays for torch's
// autograd headers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mixerbench::kernels {

struct BackwardArgs {
  std::vector<at::Tensor> saved;  // what SetBackward was given
  std::vector<at::Tensor> grads;  // one for each output, in its shape; undefined: zero
  std::vector<bool> wanted;       // one for each input: whether its gradient is needed
};

// Returns one gradient for each input, undefined where it is zero or not wanted. Runs with gradient
// recording off; must not modify what it is given.
using BackwardFunction = std::function<std::vector<at::Tensor>(const BackwardArgs&)>;

// True when a function of `inputs` has to be recorded: one of them (undefined ones aside) requires
// a gradient and recording is on.
bool NeedsBackward(const std::vector<at::Tensor>& inputs);

// What a function leaves with its node for the backward passes of those that take its outputs.
class NodeData {
 public:
  virtual ~NodeData() = default;
};

// Records `outputs`, fresh tensors without history, as a function of `inputs`; does nothing unless
// NeedsBackward(inputs). An output may share memory with an input that nobody writes while either
// is in use (the table that an embedding hands on). `saved` may hold inputs, outputs and
// intermediate values: they are kept until the backward pass and, like those of ATen's own
// functions, must not be modified in between. `name` is shown by profilers and in errors, `data` is
// what NodeDataOf finds. Errors: std::logic_error in the backward pass when a second derivative is
// asked for.
void SetBackward(std::string name, const std::vector<at::Tensor>& inputs,
                 const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& saved,
                 BackwardFunction backward, std::shared_ptr<NodeData> data = nullptr);

// The data of the node that recorded `x` or, if `x` is a view, what it is a view of; null when
// there are none.
std::shared_ptr<NodeData> NodeDataOf(const at::Tensor& x);

}  // namespace mixerbench::kernels
