// SPDX-License-Identifier: Apache-2.0
#include "models/mixer.h"

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>

#include "base/check.h"
#include "base/error.h"
#include "models/packing.h"

namespace mixerbench::models {
namespace {

struct NamedConfig {
  std::string name;
  Value options;
};

NamedConfig SplitName(const Value& config, const std::string& where) {
  if (!config.is_object()) {
    throw ConfigError(where,
                      "expected {\"name\": ..., options}, got " + std::string(config.type_name()));
  }
  const Value* name = config.Find("name");
  if (name == nullptr || !name->is_string()) {
    throw ConfigError(where + "/name", "expected the name of a mixer");
  }
  Object options = config.as_object();
  options.erase("name");
  return {name->as_string(), std::move(options)};
}

}  // namespace

MixerOptions MixerOptions::Inner(std::string_view name) const {
  MixerOptions inner = *this;
  inner.initial_state = models::Inner(initial_state, name);
  inner.taps = taps.Child(name);
  return inner;
}

void Mixed::Hold(const std::string& name, Mixed mixed) {
  final_state.inner[name] = std::move(mixed.final_state);
  for (auto& [key, value] : mixed.offers) offers[key] = std::move(value);
  for (const auto& [key, value] : mixed.losses) AddLoss(key, value);
  Mixed& held = inner.emplace_back();
  held.tokens = std::move(mixed.tokens);
  held.inner = std::move(mixed.inner);
}

void Mixed::AddLoss(const std::string& name, const at::Tensor& value) {
  at::Tensor& sum = losses[name];
  sum = sum.defined() ? sum + value : value;
}

void Mixed::SelectScored(const ScoredPositions& rows, ExecutionPath path) {
  for (TokenTensor& token : tokens) {
    if (token.selected || !token.value.defined()) continue;
    const at::Tensor& all = token.value;
    const at::Tensor flat = all.dim() == 2 ? all.unsqueeze(2) : all.flatten(2);
    std::vector<std::int64_t> shape = all.sizes().slice(1).vec();
    shape[0] = rows.positions.size(0);
    token = {kernels::GatherRows(flat, rows, path).view(shape), true};
  }
  for (Mixed& held : inner) held.SelectScored(rows, path);
}

MixerResult Forward(const Mixer& mixer, const MixerInputs& inputs, const MixerOptions& options) {
  const bool is_packed = inputs.cu_seqlens.defined();
  Mixed mixed = is_packed ? MixPacked(mixer, inputs, options) : mixer.Mix(inputs, options);
  if (options.scored != nullptr) mixed.SelectScored(*options.scored, options.path);
  MixerOptions of_output = options;
  if (is_packed) of_output.initial_state = nullptr;  // one a sequence: not of the mixer's own form
  return {.y = mixer.Output(mixed, of_output),
          .final_state = options.want_final_state ? std::move(mixed.final_state) : State{},
          .offers = std::move(mixed.offers),
          .losses = std::move(mixed.losses)};
}

at::Tensor Step(const Mixer& mixer, const MixerInputs& token, State& state) {
  MixerOptions options;
  options.path = ExecutionPath::kReference;
  options.initial_state = &state;
  options.want_final_state = true;
  MixerResult result = Forward(mixer, token, options);
  state = std::move(result.final_state);
  return result.y.squeeze(1);
}

std::unique_ptr<Mixer> CreateMixer(const Value& config, const std::string& where,
                                   const MixerContext& context, const ParameterScope& scope) {
  Require(context.registry != nullptr, "MixerContext::registry is set");
  const NamedConfig split = SplitName(config, where);
  const MixerEntry& entry = context.registry->Find(split.name, where + "/name");
  std::unique_ptr<Mixer> mixer = entry.create(split.options, where, context, scope);
  for (const std::string& name : mixer->traits().reads) {
    if (context.offered.contains(name)) continue;
    throw ConfigError(where + "/name", "'" + split.name + "' reads '" + name +
                                           "', which nothing before this layer offers");
  }
  return mixer;
}

Value ResolveMixer(const Value& config, const std::string& where, const MixerRegistry& registry) {
  const NamedConfig split = SplitName(config, where);
  const MixerEntry& entry = registry.Find(split.name, where + "/name");
  Value resolved = entry.resolve(split.options, where, registry);
  resolved.as_object()["name"] = split.name;
  return resolved;
}

}  // namespace mixerbench::models
