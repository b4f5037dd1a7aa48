// What is held against fp64: a differentiable function of named tensors and parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::accuracy {

using kernels::ExecutionPath;
using kernels::NamedTensors;

class Subject {
 public:
  virtual ~Subject() = default;

  // Exact values, fp64 on the device of the test, [B,...]: sequences do not see each other. All
  // are representable in the types of every precision, so that these differ in arithmetic alone.
  virtual const NamedTensors& inputs() const = 0;

  // The type of an input in a call whose activations have `dtype`; kDouble: kDouble.
  virtual at::ScalarType InputType(const std::string& name, at::ScalarType dtype) const = 0;

  // Leaves that every call with this `dtype` of activations uses, by name.
  virtual std::vector<std::pair<std::string, at::Tensor>> Parameters(
      at::ScalarType dtype) const = 0;

  // `inputs` of consecutive sequences in the types above.
  // Outputs [B,...] of any floating type, zero where they are not asked for.
  virtual NamedTensors Run(const NamedTensors& inputs, std::int64_t first_sequence,
                           ExecutionPath path, at::ScalarType dtype) const = 0;

  // The largest number in the states that exact `inputs` of some sequences end with; 0 where
  // outputs show them all.
  virtual double LargestState(const NamedTensors& /*inputs*/) const { return 0; }
};

}  // namespace mixerbench::accuracy
