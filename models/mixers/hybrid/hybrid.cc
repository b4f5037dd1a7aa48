// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/hybrid/hybrid.h"

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/fields.h"
#include "models/blocks/holding_mixer.h"
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

// The layer's mixer itself: the pattern costs nothing at run time.
std::unique_ptr<Mixer> Make(const HybridConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const std::size_t index = static_cast<std::size_t>(context.layer_index) % config.pattern.size();
  return CreateMixer(config.pattern[index], ItemPointer(where + "/pattern", index), context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry =
      MakeHoldingEntry(ConfigFields(), Parse, "pattern", &HybridConfig::pattern, Make);
  entry.summary = "a different mixer in each layer, by a repeated pattern";
  entry.source = "arXiv 2312.04927 (convolution then mixer), 2402.18668";
  entry.test_configs = {
      Object{{"pattern", Array{Object{{"name", "delta_net"}, {"num_heads", 1}}}}},
  };
  registry.Add("hybrid", std::move(entry));
}

}  // namespace mixerbench::models::hybrid
