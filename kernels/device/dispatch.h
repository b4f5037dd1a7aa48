// How a fused function decides between its kernels and ATen's functions, and tells what it decided.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

// Why no kernel of this folder takes tensors like `x`: another device, another dtype, no elements.
// Empty when some do.
std::string DeviceRefusal(const at::Tensor& x);

// Whether kernels run: on the fast path, unless there is a `refusal`. Tells it of `function`
// (kernels/runtime/plan.h), with the backward pass when one of `inputs` will get a gradient.
[[nodiscard]] bool RunsByKernels(std::string_view function, ExecutionPath path,
                                 std::string_view refusal,
                                 std::initializer_list<at::Tensor> inputs);

// Tells the same of a function that decides by itself.
void RecordDispatch(std::string_view function, ExecutionPath path, std::string_view refusal,
                    std::initializer_list<at::Tensor> inputs);

}  // namespace mixerbench::kernels
