// SPDX-License-Identifier: Apache-2.0
#include "harness/interop/mixer_setup.h"

#include "base/error.h"
#include "base/suggest.h"
#include "harness/python/python_mixer.h"

namespace mixerbench::harness {
namespace {

// What a class gets is said apart from what the program needs.
void RequireOptionsOfModule(const Object& config) {
  for (const auto& [key, value] : config) {
    if (key == "name" || key == "module" || key == "options") continue;
    throw ConfigError("--set " + key,
                      "a class in Python gets its arguments as --set options." + key + "=...");
  }
}

void RequireKnown(const std::string& name, const models::MixerRegistry& registry) {
  if (registry.Contains(name)) return;
  throw ConfigError("", UnknownName("mixer", name, registry.Names()) +
                            "; a class of your own is FILE.py:Class (docs/PYTHON.md)");
}

}  // namespace

MixerSetup ParseMixerSetup(const std::string& name, const io::Settings& settings,
                           const models::MixerRegistry& registry) {
  MixerSetup setup{.config = NameMixer(name)};
  RequireKnown(setup.config.at("name").as_string(), registry);
  for (const auto& [path, text] : settings) {
    io::SetPath(setup.config, path, io::ParseSettingValue(text), "--set " + path);
  }
  const auto take = [&](const char* size, std::int64_t& target, std::int64_t least) {
    const auto found = setup.config.find(size);
    if (found == setup.config.end()) return;
    if (!found->second.is_int() || found->second.as_int() < least) {
      throw ConfigError(std::string("--set ") + size,
                        "expected a whole number >= " + std::to_string(least));
    }
    target = found->second.as_int();
    setup.config.erase(found);
  };
  take("d_model", setup.d_model, 1);
  take("max_seq_len", setup.max_seq_len, 1);
  take("layer_index", setup.layer_index, 0);
  take("num_layers", setup.num_layers, 1);
  if (setup.config.at("name") == Value(kPythonMixer)) RequireOptionsOfModule(setup.config);
  if (setup.num_layers == 0) setup.num_layers = setup.layer_index + 1;
  if (setup.layer_index >= setup.num_layers) {
    throw ConfigError("--set layer_index",
                      "must be below num_layers " + std::to_string(setup.num_layers));
  }
  return setup;
}

}  // namespace mixerbench::harness
