// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/hybrid/hybrid.h"

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/fields.h"
#include "models/mixer.h"

namespace mixerbench::models::hybrid {
namespace {

const Fields<HybridConfig>& ConfigFields() {
  static const auto fields = Fields<HybridConfig>().Add("pattern", &HybridConfig::pattern,
                                                        "mixers; layer i uses pattern[i mod size]");
  return fields;
}

HybridConfig Parse(const Value& config, const std::string& where) {
  HybridConfig parsed = ConfigFields().Parse(config, where);
  if (parsed.pattern.empty()) throw ConfigError(where + "/pattern", "must name at least one mixer");
  return parsed;
}

std::string ItemPointer(const std::string& where, std::size_t index) {
  return where + "/pattern/" + std::to_string(index);
}

// The layer's mixer itself: the pattern costs nothing at run time.
std::unique_ptr<Mixer> Create(const Value& config, const std::string& where,
                              const MixerContext& context, const ParameterScope& scope) {
  const HybridConfig parsed = Parse(config, where);
  const std::size_t index = static_cast<std::size_t>(context.layer_index) % parsed.pattern.size();
  return CreateMixer(parsed.pattern[index], ItemPointer(where, index), context, scope);
}

Value Resolve(const Value& config, const std::string& where, const MixerRegistry& registry) {
  HybridConfig parsed = Parse(config, where);
  for (std::size_t i = 0; i < parsed.pattern.size(); ++i) {
    parsed.pattern[i] = ResolveMixer(parsed.pattern[i], ItemPointer(where, i), registry);
  }
  return ConfigFields().Write(parsed);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry;
  entry.summary = "a different mixer in each layer, by a repeated pattern";
  entry.source = "arXiv 2312.04927 (convolution then mixer), 2402.18668";
  entry.params = ConfigFields().Describe();
  entry.create = Create;
  entry.resolve = Resolve;
  entry.test_configs = {
      Object{{"pattern", Array{Object{{"name", "delta_net"}, {"num_heads", 1}}}}},
  };
  registry.Add("hybrid", std::move(entry));
}

}  // namespace mixerbench::models::hybrid
