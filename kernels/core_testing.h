// Random inputs of any core and its gradients, for tests over the registry.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core.h"

namespace mixerbench::testing {

struct CoreCase {
  std::int64_t batch_size = 2;
  std::int64_t seq_len = 35;
  std::int64_t num_heads = 2;
  std::int64_t head_k_dim = 5;
  std::int64_t head_v_dim = 3;
  std::int64_t num_slots = 4;
  at::ScalarType dtype = at::kDouble;
  bool with_optional = true;                             // optional inputs, states among them
  std::vector<double> log_decays = {0, -0.01, -1, -20};  // each element is one of these
  at::Device device = at::kCPU;
};

// The letters of a shape ("B T H K") as the sizes of a case.
std::vector<std::int64_t> ShapeOf(const kernels::TensorSpec& spec, const CoreCase& c);

// A random state has the shape and dtype of the one that a short run leaves behind.
kernels::NamedTensors DrawInputs(const kernels::CoreEntry& core, const CoreCase& c,
                                 std::uint64_t seed);

kernels::NamedTensors Convert(const kernels::NamedTensors& tensors, at::ScalarType dtype);

// Outputs, and the gradient of a fixed random weighting of all of them (final states included) with
// respect to every input (initial states included), under the names "o", "d q", ...
kernels::NamedTensors RunWithGradients(const kernels::CoreEntry& core,
                                       const kernels::NamedTensors& inputs,
                                       const kernels::CoreOptions& options);

}  // namespace mixerbench::testing
