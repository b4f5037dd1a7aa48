// A registry entry for a mixer whose options are one config struct.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/fields.h"
#include "models/mixer.h"

namespace mixerbench::models {

// Fills params, create and resolve; the caller adds the texts. `make` gets a parsed Config and
// checks its sizes against the context:
//   std::unique_ptr<Mixer> make(const Config&, const std::string& where, const MixerContext&,
//                               const ParameterScope&)
template <typename Config, typename Make>
MixerEntry MakeMixerEntry(const Fields<Config>& fields, Make make) {
  MixerEntry entry;
  entry.params = fields.Describe();
  entry.create = [&fields, make](const Value& config, const std::string& where,
                                 const MixerContext& context, const ParameterScope& scope) {
    return make(fields.Parse(config, where), where, context, scope);
  };
  entry.resolve = [&fields](const Value& config, const std::string& where, const MixerRegistry&) {
    return fields.Write(fields.Parse(config, where));
  };
  return entry;
}

}  // namespace mixerbench::models
