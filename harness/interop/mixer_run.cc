// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include "base/check.h"
#include "harness/device/tensor_io.h"
#include "harness/interop/mixer_setup.h"
#include "harness/interop/unit_files.h"
#include "harness/interop/unit_run.h"
#include "harness/python/host.h"
#include "models/mixer.h"

namespace mixerbench::harness {
namespace {

using kernels::NamedTensors;

constexpr std::int64_t kDescribedWidth = 64;  // d_model of `--describe` when none is set

struct BuiltMixer {
  std::unique_ptr<models::ParameterSet> parameters;
  std::unique_ptr<models::Mixer> mixer;
};

BuiltMixer Build(const UnitRunOptions& options, const MixerSetup& setup,
                 const UnitNumerics& numerics, const Registries& registries) {
  BuiltMixer built;
  built.parameters = std::make_unique<models::ParameterSet>(
      static_cast<std::uint64_t>(std::max<std::int64_t>(options.seed, 0)),
      models::InitPolicy::kDefault, setup.num_layers, numerics.device, numerics.parameters);
  built.mixer = models::CreateMixer(setup.config, "--set",
                                    {.d_model = setup.d_model,
                                     .layer_index = setup.layer_index,
                                     .num_layers = setup.num_layers,
                                     .max_seq_len = setup.max_seq_len,
                                     .registry = &registries.mixers,
                                     .offered = {"embeddings", "previous_output"}},
                                    models::ParameterScope(*built.parameters));
  return built;
}

// Sizes of a given state may differ from those of the initial one in the number of rows of a cache.
// Complex numbers are pairs of real ones in files.
at::Tensor InFile(const at::Tensor& x) { return x.is_complex() ? at::view_as_real(x) : x; }

std::string StateShapeText(const models::StateTensor& tensor) {
  std::string text = ShapeText(InFile(tensor.value).sizes());
  if (tensor.kind != models::StateKind::kCache) return text;
  const std::size_t second = text.find(", 0");
  return text.replace(second + 2, 1, "S");
}

ExitCode Describe(const UnitRunOptions& options, MixerSetup setup, const UnitNumerics& numerics,
                  const Registries& registries) {
  if (setup.d_model == 0) setup.d_model = kDescribedWidth;
  if (setup.max_seq_len == 0) setup.max_seq_len = kDescribedWidth;
  const BuiltMixer built = Build(options, setup, numerics, registries);
  const std::string x = "[B, T, " + std::to_string(setup.d_model) + "]";
  std::cout << "in   x  " << x << "\n";
  for (const std::string& name : built.mixer->traits().reads) {
    std::cout << "in   value." << name << "  [B, T, ...]\n";
  }
  for (const auto& parameter : built.parameters->parameters()) {
    std::cout << "in   param." << parameter.name << "  " << ShapeText(parameter.tensor.sizes())
              << "\n";
  }
  const models::State state = built.mixer->InitialState(1);
  models::ForEach(state, [](const std::string& path, const models::StateTensor& tensor) {
    std::cout << "in   state." << path << "  " << StateShapeText(tensor)
              << "  (all or none; first axis is B)\n";
  });
  std::cout << "in   rows  [B, R]  (optional: positions whose outputs are wanted, in order)\n"
            << "in   grad.y  like y, grad.final_state.<name>  (with --gradients)\n"
            << "out  y  " << x << ", or [B, R, " << setup.d_model << "] of rows\n"
            << "out  final_state.<name>  (with --final-state)\n"
            << "out  param.<name>  (of what --seed drew)\n"
            << "out  loss.<name>  (auxiliary losses)\n"
            << "out  grad.x, grad.param.<name>, grad.state.<name>  (with --gradients)\n";
  return ExitCode::kOk;
}

// Fills the parameters that the file has; the others, drawn from the seed, become results.
void TakeParameters(UnitFile& file, const UnitRunOptions& options, const BuiltMixer& built,
                    NamedTensors& results) {
  for (const auto& parameter : built.parameters->parameters()) {
    const std::string name = "param." + parameter.name;
    if (options.seed >= 0 && file.Find(name) == nullptr) {
      results[name] = parameter.tensor;
      continue;
    }
    const at::Tensor& value = file.Require(name);
    file.RequireShape(name, value, parameter.tensor.sizes());
    const at::NoGradGuard no_grad;
    parameter.tensor.copy_(value);
  }
}

// The state in the file; nullopt when it has none of it: the mixer then starts as in training.
std::optional<models::State> TakeState(UnitFile& file, const models::Mixer& mixer,
                                       std::int64_t batch_size, bool gradients) {
  models::State state = mixer.InitialState(batch_size);
  std::vector<std::string> missing;
  bool any = false;
  std::optional<std::int64_t> cached;  // tokens that caches hold
  models::ForEach(state, [&](const std::string& path, models::StateTensor& tensor) {
    const std::string name = "state." + path;
    const at::Tensor* const given = file.Find(name);
    if (given == nullptr) {
      missing.push_back(name);
      return;
    }
    any = true;
    const at::Tensor stored = InFile(tensor.value);
    std::vector<std::int64_t> expected = stored.sizes().vec();
    if (tensor.kind == models::StateKind::kCache && given->dim() == tensor.value.dim()) {
      expected[1] = given->size(1);
      const std::int64_t tokens = given->size(1) * tensor.tokens_per_row;
      if (tensor.tokens_per_row == 1 && cached.value_or(tokens) != tokens) {
        file.Refuse("'" + name + "' holds " + std::to_string(tokens) + " tokens, another cache " +
                    std::to_string(*cached));
      }
      if (tensor.tokens_per_row == 1) cached = tokens;
    }
    file.RequireShape(name, *given, expected);
    const bool is_complex = tensor.value.is_complex();
    const at::Tensor read = given->to(stored.options());
    tensor.value = is_complex ? at::view_as_complex(read.contiguous()) : read;
    if (gradients && stored.is_floating_point()) tensor.value.requires_grad_(true);
  });
  if (!any) return std::nullopt;
  if (!missing.empty()) file.Refuse("a state is given, but '" + missing.front() + "' is missing");
  return state;
}

NamedTensors TakeValues(UnitFile& file, const models::Mixer& mixer, const at::Tensor& x) {
  NamedTensors values;
  for (const std::string& name : mixer.traits().reads) {
    const at::Tensor& value = file.Require("value." + name);
    if (value.dim() < 2 || value.size(0) != x.size(0) || value.size(1) != x.size(1)) {
      file.Refuse("'value." + name + "' must be [B, T, ...] of x, got " + ShapeText(value.sizes()));
    }
    values[name] = value.to(x.options().requires_grad(false));
  }
  return values;
}

// Positions [B,R] of each sequence as a selection of the B*T tokens; nullopt when there are none.
std::optional<models::ScoredPositions> TakeRows(UnitFile& file, const at::Tensor& x) {
  const at::Tensor* const given = file.Find("rows");
  if (given == nullptr) return std::nullopt;
  if (given->scalar_type() != at::kLong || given->dim() != 2 || given->size(0) != x.size(0) ||
      given->size(1) == 0) {
    file.Refuse("'rows' must be int64 [B, R] with B " + std::to_string(x.size(0)));
  }
  const std::int64_t seq_len = x.size(1);
  const std::int64_t count = given->size(1);
  const bool in_range =
      given->min().item<std::int64_t>() >= 0 && given->max().item<std::int64_t>() < seq_len;
  const bool in_order =
      count == 1 ||
      (given->narrow(1, 1, count - 1) - given->narrow(1, 0, count - 1)).min().item<std::int64_t>() >
          0;
  if (!in_range || !in_order) {
    file.Refuse("'rows' must be positions of x in ascending order in each sequence");
  }
  const at::Tensor first = at::arange(x.size(0), at::kLong).unsqueeze(1) * seq_len;
  const at::Tensor rows = (*given + first).flatten();
  at::Tensor entries = at::full({x.size(0) * seq_len}, rows.size(0), at::kLong);
  entries.index_put_({rows}, at::arange(rows.size(0), at::kLong));
  return models::ScoredPositions{rows.to(x.device()), entries.to(x.device()), count};
}

// d/d everything of <y, grad.y> + sum of <final_state, grad.final_state>.
void Differentiate(const UnitFile& file, const models::MixerResult& output,
                   const NamedTensors& gradients) {
  const at::Tensor grad_y = gradients.at("y").reshape(output.y.sizes());
  at::Tensor objective = (output.y * grad_y.to(output.y.options())).sum();
  models::ForEach(output.final_state,
                  [&](const std::string& path, const models::StateTensor& tensor) {
                    const auto given = gradients.find("final_state." + path);
                    if (given == gradients.end()) return;
                    const at::Tensor value = InFile(tensor.value);
                    file.RequireShape("grad." + given->first, given->second, value.sizes());
                    const at::Tensor term = (value * given->second.to(value.options())).sum();
                    objective = objective.to(term.scalar_type()) + term;
                  });
  Backward(objective);
}

// x as it is in the file; `setup` gets the sizes that nobody has set.
const at::Tensor& TakeX(UnitFile& file, MixerSetup& setup) {
  const at::Tensor& x = file.Require("x");
  if (x.dim() != 3 || x.numel() == 0) {
    file.Refuse("'x' must be [B, T, D] without an empty axis, got " + ShapeText(x.sizes()));
  }
  if (setup.d_model == 0) setup.d_model = x.size(2);
  if (setup.d_model != x.size(2)) {
    file.Refuse("'x' has " + std::to_string(x.size(2)) +
                " channels, --set d_model=" + std::to_string(setup.d_model));
  }
  if (setup.max_seq_len == 0) setup.max_seq_len = x.size(1);
  return x;
}

void CheckLength(const UnitFile& file, const models::Mixer& mixer, const at::Tensor& x) {
  const std::int64_t longest = mixer.traits().max_seq_len;
  if (longest == 0 || x.size(1) <= longest) return;
  file.Refuse("'x' has " + std::to_string(x.size(1)) + " tokens, the mixer takes " +
              std::to_string(longest) + " (--set max_seq_len)");
}

// Those of the final state that the file has, and "y" of this shape where gradients are wanted.
NamedTensors TakeGradients(UnitFile& file, const UnitRunOptions& options,
                           const models::Mixer& mixer, at::IntArrayRef y_shape) {
  NamedTensors gradients;
  const models::State initial = mixer.InitialState(1);
  models::ForEach(initial, [&](const std::string& path, const models::StateTensor&) {
    const std::string name = "final_state." + path;
    if (const at::Tensor* const given = file.Find("grad." + name)) gradients[name] = *given;
  });
  const at::Tensor* const grad_y = file.Find("grad.y");
  if (!options.gradients) return gradients;
  gradients["y"] = grad_y != nullptr ? *grad_y : file.Require("grad.y");
  file.RequireShape("grad.y", gradients["y"], y_shape);
  return gradients;
}

void AddOutputs(const UnitRunOptions& options, const models::MixerResult& output,
                at::IntArrayRef y_shape, NamedTensors& results) {
  results["y"] = output.y.view(y_shape);
  for (const auto& [name, loss] : output.losses) results["loss." + name] = loss;
  if (!options.final_state) return;
  models::ForEach(output.final_state,
                  [&](const std::string& path, const models::StateTensor& tensor) {
                    results["final_state." + path] = InFile(tensor.value);
                  });
}

void AddGradients(const at::Tensor& x, const models::ParameterSet& parameters,
                  const std::optional<models::State>& state, NamedTensors& results) {
  results["grad.x"] = x.grad();
  for (const auto& parameter : parameters.parameters()) {
    if (!parameter.tensor.grad().defined()) continue;
    results["grad.param." + parameter.name] = parameter.tensor.grad();
  }
  if (!state) return;
  models::ForEach(*state, [&](const std::string& path, const models::StateTensor& tensor) {
    if (!tensor.value.requires_grad() || !tensor.value.grad().defined()) return;
    results["grad.state." + path] = InFile(tensor.value.grad());
  });
}

}  // namespace

ExitCode MixerRun(const UnitRunOptions& options, const Registries& registries) {
  const UnitNumerics numerics = ParseNumerics(options);
  MixerSetup setup = ParseMixerSetup(options.name, options.set, registries.mixers);
  if (options.describe) return Describe(options, setup, numerics, registries);

  RequireOtherOutput(options);
  UnitFile file(options.in);
  const at::Tensor& raw_x = TakeX(file, setup);
  const BuiltMixer built = Build(options, setup, numerics, registries);
  CheckLength(file, *built.mixer, raw_x);

  NamedTensors results;
  TakeParameters(file, options, built, results);
  const std::optional<models::State> state =
      TakeState(file, *built.mixer, raw_x.size(0), options.gradients);
  const at::Tensor x =
      raw_x.to(numerics.device, numerics.activations).requires_grad_(options.gradients);
  const NamedTensors values = TakeValues(file, *built.mixer, x);
  const std::optional<models::ScoredPositions> rows = TakeRows(file, x);
  std::vector<std::int64_t> y_shape = x.sizes().vec();
  if (rows) y_shape[1] = rows->per_sequence;
  const NamedTensors gradients = TakeGradients(file, options, *built.mixer, y_shape);
  file.RefuseOthers();

  const bool want_state = options.final_state || gradients.size() > 1;
  const models::MixerResult output = models::Forward(*built.mixer, {.x = x, .values = values},
                                                     {.path = ParsePath(options),
                                                      .initial_state = state ? &*state : nullptr,
                                                      .want_final_state = want_state,
                                                      .scored = rows ? &*rows : nullptr});
  AddOutputs(options, output, y_shape, results);
  if (options.gradients) {
    Differentiate(file, output, gradients);
    AddGradients(x, *built.parameters, state, results);
  }
  SaveTensors(options.out, results);
  return ExitCode::kOk;
}

}  // namespace mixerbench::harness
