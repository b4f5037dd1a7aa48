// Gradients of functions of tensors, by autograd and by central differences.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mixerbench::testing {

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

struct Derivative {
  std::vector<at::Tensor> outputs;    // detached
  std::vector<at::Tensor> gradients;  // one for each input, its shape and dtype; zeros where the
                                      // outputs do not depend on it
};

// Runs `function` on leaf views of `inputs` (values and strides kept) and differentiates
// sum_i <outputs[i], weights_i>, where weights_i is a fixed standard normal draw. Undefined outputs
// are an error; undefined inputs are passed through and get undefined gradients.
Derivative Differentiate(const TensorFunction& function, const std::vector<at::Tensor>& inputs);

// Largest relative error of an output or a gradient (compare.h); infinite when there are not as
// many of each. Gradients that are undefined in `expected` are passed over.
double RelativeError(const Derivative& actual, const Derivative& expected);

// Largest relative error, over the inputs, between the gradient by autograd and by central
// differences with step 1e-6. Cost: two calls for each input element, so keep the sizes tiny.
// Errors: std::logic_error unless every input is float64.
double GradientCheckError(const TensorFunction& function, const std::vector<at::Tensor>& inputs);

}  // namespace mixerbench::testing
