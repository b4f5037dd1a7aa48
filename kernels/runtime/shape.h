// Shape preconditions of tensor functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "base/check.h"

namespace mixerbench::kernels {

// Throws std::logic_error naming the tensor, the expected and the actual shape. The message is
// built only on failure.
inline void RequireShape(const at::Tensor& tensor, std::initializer_list<std::int64_t> expected,
                         std::string_view name, CallSite where = CallSite::Current()) {
  const at::IntArrayRef shape(expected.begin(), expected.size());
  if (tensor.defined() && tensor.sizes() == shape) return;
  std::ostringstream message;
  message << name << " must have shape " << shape << ", got ";
  if (tensor.defined()) {
    message << tensor.sizes();
  } else {
    message << "no tensor";
  }
  Require(false, message.str(), where);
}

}  // namespace mixerbench::kernels
