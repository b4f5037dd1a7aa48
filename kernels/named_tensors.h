// Look-up in the arguments of CoreEntry::run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels {

// The tensor of that name; undefined when there is none.
inline at::Tensor FindTensor(const NamedTensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? at::Tensor() : found->second;
}

}  // namespace mixerbench::kernels
