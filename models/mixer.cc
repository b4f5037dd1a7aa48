// SPDX-License-Identifier: Apache-2.0
#include "models/mixer.h"

#include <utility>

#include "base/check.h"
#include "base/error.h"

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

at::Tensor Mixer::Step(const at::Tensor& x_t, State& state) const {
  ForwardOptions options;
  options.path = ExecutionPath::kReference;
  options.initial_state = &state;
  options.want_final_state = true;
  MixerOutput output = Forward(x_t.unsqueeze(1), options);
  state = std::move(output.final_state);
  return output.y.squeeze(1);
}

std::unique_ptr<Mixer> CreateMixer(const Value& config, const std::string& where,
                                   const MixerContext& context, const ParameterScope& scope) {
  Require(context.registry != nullptr, "MixerContext::registry is set");
  const NamedConfig split = SplitName(config, where);
  const MixerEntry& entry = context.registry->Find(split.name, where + "/name");
  return entry.create(split.options, where, context, scope);
}

Value ResolveMixer(const Value& config, const std::string& where, const MixerRegistry& registry) {
  const NamedConfig split = SplitName(config, where);
  const MixerEntry& entry = registry.Find(split.name, where + "/name");
  Value resolved = entry.resolve(split.options, where, registry);
  resolved.as_object()["name"] = split.name;
  return resolved;
}

}  // namespace mixerbench::models
