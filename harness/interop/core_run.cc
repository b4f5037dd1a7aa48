// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <map>
#include <sstream>

#include <ATen/TensorOperators.h>
#include <ATen/ops/isnan.h>

#include "harness/device/tensor_io.h"
#include "harness/interop/unit_files.h"
#include "harness/interop/unit_run.h"
#include "io/value_path.h"

namespace mixerbench::harness {
namespace {

ExitCode Describe(const kernels::CoreEntry& entry) {
  const auto print = [](const char* direction, const kernels::TensorSpec& spec) {
    std::cout << direction << "  " << spec.name << "  [" << spec.shape << "]"
              << (spec.required ? "" : "  (optional)") << "  " << spec.help << "\n";
  };
  for (const auto& spec : entry.inputs) print("in ", spec);
  for (const auto& spec : entry.outputs) print("out", spec);
  return ExitCode::kOk;
}

kernels::CoreOptions ParseCoreOptions(const UnitRunOptions& options) {
  kernels::CoreOptions core{.path = ParsePath(options)};
  for (const auto& [name, text] : options.set) {
    const Value value = io::ParseSettingValue(text);
    if (name == "scale" && value.is_number()) {
      core.scale = value.as_double();
    } else if (name == "chunk_size" && value.is_int() && value.as_int() >= 1) {
      core.chunk_size = value.as_int();
    } else {
      throw ConfigError("--set " + name, "a core has scale (a number) and chunk_size (>= 1)");
    }
  }
  return core;
}

// Axes with one letter have one size in all tensors, and none is empty but a cache's.
class Axes {
 public:
  void Check(const UnitFile& file, const kernels::TensorSpec& spec, const at::Tensor& tensor) {
    std::istringstream letters(spec.shape);
    std::int64_t axis = 0;
    for (std::string letter; letters >> letter; ++axis) {
      if (axis >= tensor.dim()) break;
      const std::int64_t size = tensor.size(axis);
      if (size == 0 && letter != "S") file.Refuse(Named(spec, tensor) + ": " + letter + " is 0");
      const auto [known, is_new] = sizes_.try_emplace(letter, size, spec.name);
      if (is_new || known->second.first == size) continue;
      file.Refuse(Named(spec, tensor) + ": " + letter + " is " +
                  std::to_string(known->second.first) + " in '" + known->second.second + "'");
    }
    std::int64_t expected = 0;
    std::istringstream again(spec.shape);
    for (std::string letter; again >> letter;) ++expected;
    if (expected != tensor.dim()) {
      file.Refuse(Named(spec, tensor) + ", expected [" + spec.shape + "]");
    }
  }

 private:
  static std::string Named(const kernels::TensorSpec& spec, const at::Tensor& tensor) {
    return "'" + spec.name + "' [" + spec.shape + "] has shape " + ShapeText(tensor.sizes());
  }
  std::map<std::string, std::pair<std::int64_t, std::string>> sizes_;  // of a letter, first seen in
};

kernels::NamedTensors TakeInputs(UnitFile& file, const kernels::CoreEntry& entry,
                                 const UnitNumerics& numerics, bool gradients) {
  using kernels::InputKind;
  kernels::NamedTensors inputs;
  Axes axes;
  for (const auto& spec : entry.inputs) {
    const at::Tensor* const given = spec.required ? &file.Require(spec.name) : file.Find(spec.name);
    if (given == nullptr) continue;
    axes.Check(file, spec, *given);
    if (spec.kind == InputKind::kLogDecay && !given->le(0).all().item<bool>()) {
      file.Refuse("'" + spec.name + "' holds values that are not <= 0");
    }
    const at::ScalarType dtype = spec.full_precision ? numerics.parameters : numerics.activations;
    inputs[spec.name] = given->to(numerics.device, dtype).requires_grad_(gradients);
  }
  // What goes in with a final state's name comes in whole or not at all.
  for (const auto& [out, in] : entry.state_pairs) {
    if (inputs.contains(in) == inputs.contains(entry.state_pairs.front().second)) continue;
    file.Refuse("'" + in + "' and '" + entry.state_pairs.front().second +
                "' belong together: one of them is missing");
  }
  return inputs;
}

}  // namespace

ExitCode CoreRun(const UnitRunOptions& options, const Registries& registries) {
  const auto& entry = registries.cores.Find(options.name, "core run");
  const kernels::CoreOptions core_options = ParseCoreOptions(options);
  if (options.describe) return Describe(entry);
  const UnitNumerics numerics = ParseNumerics(options);
  RequireOtherOutput(options);
  UnitFile file(options.in);
  const kernels::NamedTensors inputs = TakeInputs(file, entry, numerics, options.gradients);
  kernels::NamedTensors gradients;
  for (const auto& spec : entry.outputs) {
    const std::string name = "grad." + spec.name;
    if (const at::Tensor* const given = file.Find(name)) gradients[spec.name] = *given;
  }
  file.RefuseOthers();

  const kernels::NamedTensors outputs = entry.run(inputs, core_options);
  kernels::NamedTensors results;
  at::Tensor objective;
  for (const auto& spec : entry.outputs) {
    const at::Tensor& output = outputs.at(spec.name);
    if (spec.name == entry.outputs.front().name || options.final_state) results[spec.name] = output;
    const auto gradient = gradients.find(spec.name);
    if (!options.gradients || gradient == gradients.end()) continue;
    file.RequireShape("grad." + spec.name, gradient->second, output.sizes());
    const at::Tensor term = (output * gradient->second.to(output.options())).sum();
    objective = objective.defined() ? objective + term.to(objective.scalar_type()) : term;
  }
  if (options.gradients) {
    if (!objective.defined()) file.Refuse("--gradients needs grad." + entry.outputs.front().name);
    objective.backward();
    for (const auto& [name, tensor] : inputs) {
      if (tensor.grad().defined()) results["grad." + name] = tensor.grad();
    }
  }
  SaveTensors(options.out, results);
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
