// SPDX-License-Identifier: Apache-2.0
#include "harness/unit_run.h"

#include <iostream>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "harness/device.h"
#include "harness/tensor_io.h"
#include "harness/value_path.h"
#include "models/mixer.h"

namespace mixerbench::harness {
namespace {

using kernels::ExecutionPath;
using kernels::NamedTensors;

constexpr std::int64_t kDescribedWidth = 64;  // d_model of `--describe` when none is set

struct Numerics {
  at::Device device;
  at::ScalarType parameters;  // fp32, or fp64 for fp64
  at::ScalarType activations;
};

Numerics ParseNumerics(const UnitRunOptions& options) {
  const at::Device device = ParseDevice(options.device);
  if (options.dtype == "tf32" && !device.is_cuda()) {
    throw ConfigError("--dtype tf32", "needs --device cuda");
  }
  SetNumerics(options.dtype == "tf32");
  if (options.dtype == "fp64") return {device, at::kDouble, at::kDouble};
  return {device, at::kFloat, options.dtype == "bf16" ? at::kBFloat16 : at::kFloat};
}

ExecutionPath ParsePath(const UnitRunOptions& options) {
  return options.path == "reference" ? ExecutionPath::kReference : ExecutionPath::kFast;
}

std::string ShapeText(at::IntArrayRef shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

const at::Tensor& RequireTensor(const NamedTensors& tensors, const std::string& name,
                                const std::string& path) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    throw Error(ExitCode::kBadInput, path + ": no tensor '" + name + "'; see --describe");
  }
  return found->second;
}

void RefuseUnknown(const NamedTensors& tensors, const std::vector<std::string>& known,
                   const std::string& path) {
  for (const auto& [name, tensor] : tensors) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw Error(ExitCode::kBadInput, path + ": " + UnknownName("tensor", name, known));
    }
  }
}

void RequireSameShape(const at::Tensor& given, at::IntArrayRef expected, const std::string& name,
                      const std::string& path) {
  if (given.sizes() == expected) return;
  throw Error(ExitCode::kBadInput, path + ": '" + name + "' has shape " + ShapeText(given.sizes()) +
                                       ", expected " + ShapeText(expected));
}

// d_model and max_seq_len may be set beside the mixer's own options.
struct MixerSetup {
  Object config;
  std::int64_t d_model = 0;
  std::int64_t max_seq_len = 0;
};

MixerSetup ParseMixerSetup(const Settings& settings) {
  MixerSetup setup;
  for (const auto& [path, text] : settings) {
    SetPath(setup.config, path, ParseSettingValue(text), "--set " + path);
  }
  const auto take = [&](const char* name, std::int64_t& target) {
    const auto found = setup.config.find(name);
    if (found == setup.config.end()) return;
    if (!found->second.is_int() || found->second.as_int() < 1) {
      throw ConfigError(std::string("--set ") + name, "expected a whole number >= 1");
    }
    target = found->second.as_int();
    setup.config.erase(found);
  };
  take("d_model", setup.d_model);
  take("max_seq_len", setup.max_seq_len);
  return setup;
}

struct BuiltMixer {
  std::unique_ptr<models::ParameterSet> parameters;
  std::unique_ptr<models::Mixer> mixer;
};

BuiltMixer Build(const UnitRunOptions& options, const MixerSetup& setup, const Numerics& numerics,
                 const Registries& registries) {
  const auto& entry = registries.mixers.Find(options.name, "mixer run");
  BuiltMixer built;
  built.parameters = std::make_unique<models::ParameterSet>(
      static_cast<std::uint64_t>(std::max<std::int64_t>(options.seed, 0)),
      models::InitPolicy::kDefault, 1, numerics.device, numerics.parameters);
  built.mixer = entry.create(setup.config, "--set",
                             {.d_model = setup.d_model,
                              .layer_index = 0,
                              .num_layers = 1,
                              .max_seq_len = setup.max_seq_len,
                              .registry = &registries.mixers},
                             models::ParameterScope(*built.parameters));
  return built;
}

ExitCode DescribeMixerTensors(const UnitRunOptions& options, MixerSetup setup,
                              const Numerics& numerics, const Registries& registries) {
  if (setup.d_model == 0) setup.d_model = kDescribedWidth;
  if (setup.max_seq_len == 0) setup.max_seq_len = kDescribedWidth;
  const BuiltMixer built = Build(options, setup, numerics, registries);
  const std::string x = "[B, T, " + std::to_string(setup.d_model) + "]";
  std::cout << "in   x  " << x << "\n";
  for (const auto& parameter : built.parameters->parameters()) {
    std::cout << "in   param." << parameter.name << "  " << ShapeText(parameter.tensor.sizes())
              << "\n";
  }
  for (const auto& [name, tensor] : built.mixer->InitialState(1)) {
    std::cout << "in   state." << name << "  " << ShapeText(tensor.sizes())
              << "  (optional; first axis is B)\n";
  }
  std::cout << "in   grad.y  " << x << "  (with --gradients)\n"
            << "out  y  " << x << "\n"
            << "out  final_state.<name>  (with --final-state)\n"
            << "out  grad.x, grad.param.<name>, grad.state.<name>  (with --gradients)\n";
  return ExitCode::kOk;
}

}  // namespace

ExitCode MixerRun(const UnitRunOptions& options, const Registries& registries) {
  const Numerics numerics = ParseNumerics(options);
  MixerSetup setup = ParseMixerSetup(options.set);
  if (options.describe) return DescribeMixerTensors(options, setup, numerics, registries);

  const NamedTensors given = LoadTensors(options.in);
  const at::Tensor& raw_x = RequireTensor(given, "x", options.in);
  if (raw_x.dim() != 3) {
    throw Error(ExitCode::kBadInput,
                options.in + ": 'x' must be [B, T, D], got " + ShapeText(raw_x.sizes()));
  }
  setup.d_model = raw_x.size(2);
  if (setup.max_seq_len == 0) setup.max_seq_len = raw_x.size(1);
  const BuiltMixer built = Build(options, setup, numerics, registries);

  std::vector<std::string> known = {"grad.y", "x"};
  for (const auto& parameter : built.parameters->parameters()) {
    const std::string name = "param." + parameter.name;
    known.push_back(name);
    if (options.seed >= 0 && !given.contains(name)) continue;  // drawn from the seed
    const at::Tensor& value = RequireTensor(given, name, options.in);
    RequireSameShape(value, parameter.tensor.sizes(), name, options.in);
    const at::NoGradGuard no_grad;
    parameter.tensor.copy_(value);
  }
  models::State state = built.mixer->InitialState(raw_x.size(0));
  for (auto& [name, tensor] : state) {
    known.push_back("state." + name);
    const auto found = given.find("state." + name);
    if (found == given.end()) continue;
    tensor = found->second.to(tensor.options());
    if (options.gradients && tensor.is_floating_point()) tensor.requires_grad_(true);
  }
  RefuseUnknown(given, known, options.in);

  const at::Tensor x =
      raw_x.to(numerics.device, numerics.activations).requires_grad_(options.gradients);
  const auto output = built.mixer->Forward(x, {.path = ParsePath(options),
                                               .initial_state = &state,
                                               .want_final_state = options.final_state});
  NamedTensors results = {{"y", output.y}};
  for (const auto& [name, tensor] : output.final_state) results["final_state." + name] = tensor;
  if (options.gradients) {
    const at::Tensor& gradient = RequireTensor(given, "grad.y", options.in);
    RequireSameShape(gradient, output.y.sizes(), "grad.y", options.in);
    output.y.backward(gradient.to(output.y.options()));
    results["grad.x"] = x.grad();
    for (const auto& parameter : built.parameters->parameters()) {
      if (parameter.tensor.grad().defined()) {
        results["grad.param." + parameter.name] = parameter.tensor.grad();
      }
    }
    for (const auto& [name, tensor] : state) {
      if (tensor.requires_grad() && tensor.grad().defined()) {
        results["grad.state." + name] = tensor.grad();
      }
    }
  }
  SaveTensors(options.out, results);
  return ExitCode::kOk;
}

ExitCode CoreRun(const UnitRunOptions& options, const Registries& registries) {
  const auto& entry = registries.cores.Find(options.name, "core run");
  if (options.describe) {
    const auto print = [](const char* direction, const kernels::TensorSpec& spec) {
      std::cout << direction << "  " << spec.name << "  [" << spec.shape << "]"
                << (spec.required ? "" : "  (optional)") << "  " << spec.help << "\n";
    };
    for (const auto& spec : entry.inputs) print("in ", spec);
    for (const auto& spec : entry.outputs) print("out", spec);
    return ExitCode::kOk;
  }
  const Numerics numerics = ParseNumerics(options);
  kernels::CoreOptions core_options{.path = ParsePath(options)};
  for (const auto& [name, text] : options.set) {
    const Value value = ParseSettingValue(text);
    if (name == "scale" && value.is_number()) {
      core_options.scale = value.as_double();
    } else if (name == "chunk_size" && value.is_int() && value.as_int() >= 1) {
      core_options.chunk_size = value.as_int();
    } else {
      throw ConfigError("--set " + name, "a core has scale (a number) and chunk_size (>= 1)");
    }
  }
  const NamedTensors given = LoadTensors(options.in);
  std::vector<std::string> known;
  NamedTensors inputs;
  for (const auto& spec : entry.inputs) {
    known.push_back(spec.name);
    if (!given.contains(spec.name)) {
      if (!spec.required) continue;
      RequireTensor(given, spec.name, options.in);
    }
    const at::ScalarType dtype = spec.full_precision ? numerics.parameters : numerics.activations;
    inputs[spec.name] =
        given.at(spec.name).to(numerics.device, dtype).requires_grad_(options.gradients);
  }
  for (const auto& spec : entry.outputs) known.push_back("grad." + spec.name);
  RefuseUnknown(given, known, options.in);

  const NamedTensors outputs = entry.run(inputs, core_options);
  NamedTensors results;
  at::Tensor objective;
  for (const auto& spec : entry.outputs) {
    const at::Tensor& output = outputs.at(spec.name);
    if (spec.name == entry.outputs.front().name || options.final_state) results[spec.name] = output;
    const auto gradient = given.find("grad." + spec.name);
    if (!options.gradients || gradient == given.end()) continue;
    RequireSameShape(gradient->second, output.sizes(), gradient->first, options.in);
    const at::Tensor term = (output * gradient->second.to(output.options())).sum();
    objective = objective.defined() ? objective + term.to(objective.scalar_type()) : term;
  }
  if (options.gradients) {
    if (!objective.defined()) {
      throw Error(ExitCode::kBadInput,
                  options.in + ": --gradients needs grad." + entry.outputs.front().name);
    }
    objective.backward();
    for (const auto& [name, tensor] : inputs) {
      if (tensor.grad().defined()) results["grad." + name] = tensor.grad();
    }
  }
  SaveTensors(options.out, results);
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
