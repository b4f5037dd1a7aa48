// What the entries of cores share: specs of tensors that many have, and look-up in the arguments of
// CoreEntry::run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels {

// The tensor of that name; undefined when there is none.
inline at::Tensor FindTensor(const NamedTensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? at::Tensor() : found->second;
}

// A logarithm of a decay, which may be missing.
inline TensorSpec LogDecaySpec(std::string shape, std::string help,
                               std::string name = "log_decay") {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .kind = InputKind::kLogDecay,
          .required = false,
          .full_precision = true,
          .help = std::move(help)};
}

// A state before the first token, which may be missing.
inline TensorSpec InitialStateSpec(std::string shape,
                                   std::string help = "state before the first token; none: zeros",
                                   std::string name = "initial_state") {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .kind = InputKind::kState,
          .required = false,
          .full_precision = true,
          .help = std::move(help)};
}

inline TensorSpec FinalStateSpec(std::string shape, std::string help = "state after the last token",
                                 std::string name = "final_state") {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .kind = InputKind::kState,
          .full_precision = true,
          .help = std::move(help)};
}

}  // namespace mixerbench::kernels
