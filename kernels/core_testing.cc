// SPDX-License-Identifier: Apache-2.0
#include "kernels/core_testing.h"

#include <map>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include "base/check.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

namespace mixerbench::testing {

using kernels::CoreEntry;
using kernels::CoreOptions;
using kernels::ExecutionPath;
using kernels::InputKind;
using kernels::NamedTensors;
using kernels::TensorSpec;

std::vector<std::int64_t> ShapeOf(const TensorSpec& spec, const CoreCase& c) {
  const std::map<char, std::int64_t> sizes = {{'B', c.batch_size},
                                              {'T', c.seq_len},
                                              {'H', c.num_heads},
                                              {'K', c.head_k_dim},
                                              {'V', c.head_v_dim},
                                              {'M', c.num_slots},
                                              // diagonal states: groups, channels, states
                                              {'G', c.num_heads},
                                              {'D', c.num_heads * c.head_v_dim},
                                              {'N', c.head_k_dim},
                                              {'L', 16}};  // levels, of 2^15 tokens
  std::vector<std::int64_t> result;
  for (const char axis : spec.shape) {
    if (axis != ' ') result.push_back(sizes.at(axis));
  }
  return result;
}

namespace {

at::Tensor Draw(const TensorSpec& spec, const CoreCase& c, std::uint64_t seed) {
  const auto sizes = ShapeOf(spec, c);
  const auto dtype = spec.full_precision && c.dtype != at::kDouble ? at::kFloat : c.dtype;
  switch (spec.kind) {
    case InputKind::kDense:
      return RandomNormal(sizes, seed, dtype, c.device);
    case InputKind::kUnitNorm: {
      const auto x = RandomNormal(sizes, seed, at::kDouble, c.device);
      return (x / x.norm(2, -1, /*keepdim=*/true)).to(dtype);
    }
    case InputKind::kLogDecay: {
      const auto uniform = RandomUniform(sizes, seed, at::kDouble, c.device);
      const auto choice = (uniform * static_cast<double>(c.log_decays.size())).to(at::kLong);
      return at::tensor(c.log_decays, at::kDouble)
          .to(c.device)
          .take(choice)
          .to(c.dtype == at::kDouble ? at::kDouble : at::kFloat);
    }
    case InputKind::kUnit:
      return RandomUniform(sizes, seed, dtype, c.device);
    case InputKind::kState:
      break;
  }
  Require(false, "states are drawn by DrawInputs");
  return {};
}

}  // namespace

NamedTensors DrawInputs(const CoreEntry& core, const CoreCase& c, std::uint64_t seed) {
  const auto draw_sequences = [&](const CoreCase& sizes) {
    NamedTensors inputs;
    for (std::size_t i = 0; i < core.inputs.size(); ++i) {
      const auto& spec = core.inputs[i];
      if (spec.kind == InputKind::kState || !(spec.required || c.with_optional)) continue;
      inputs[spec.name] = Draw(spec, sizes, seed + i);
    }
    return inputs;
  };
  auto inputs = draw_sequences(c);
  if (!c.with_optional) return inputs;
  CoreCase before = c;
  before.seq_len = 3;
  const auto outputs = core.run(draw_sequences(before), {.path = ExecutionPath::kReference});
  std::uint64_t state_seed = seed + 1000;
  for (const auto& [final_name, initial_name] : core.state_pairs) {
    const auto& state = outputs.at(final_name);
    inputs[initial_name] = RandomNormal(state.sizes(), state_seed++, state.scalar_type(), c.device);
  }
  return inputs;
}

NamedTensors Convert(const NamedTensors& tensors, at::ScalarType dtype) {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) result[name] = tensor.to(dtype);
  return result;
}

NamedTensors RunWithGradients(const CoreEntry& core, const NamedTensors& inputs,
                              const CoreOptions& options) {
  std::vector<std::string> names;
  std::vector<at::Tensor> values;
  for (const auto& [name, value] : inputs) {
    names.push_back(name);
    values.push_back(value);
  }
  const auto derivative = Differentiate(
      [&](const std::vector<at::Tensor>& leaves) {
        NamedTensors named;
        for (std::size_t i = 0; i < names.size(); ++i) named[names[i]] = leaves[i];
        const auto outputs = core.run(named, options);
        std::vector<at::Tensor> ordered;
        for (const auto& spec : core.outputs) ordered.push_back(outputs.at(spec.name));
        return ordered;
      },
      values);
  NamedTensors result;
  for (std::size_t i = 0; i < core.outputs.size(); ++i) {
    result[core.outputs[i].name] = derivative.outputs[i];
  }
  for (std::size_t i = 0; i < names.size(); ++i) result["d " + names[i]] = derivative.gradients[i];
  return result;
}

}  // namespace mixerbench::testing
