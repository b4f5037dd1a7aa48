// A registry entry for a backbone whose options are one config struct.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/fields.h"
#include "models/backbone.h"
#include "models/mixer.h"

namespace mixerbench::models {

// Fills params, create, resolve and num_layers (n_layers); the caller adds init_policy and the
// texts. Config has `n_layers` and `sequence_mixer`. `parse` checks what needs no context:
//   Config parse(const Value&, const std::string& where)
//   std::unique_ptr<Backbone> make(const Config&, const std::string& where, const BackboneContext&,
//                                  ParameterSet&)
template <typename Config, typename Parse, typename Make>
BackboneEntry MakeBackboneEntry(const Fields<Config>& fields, Parse parse, Make make) {
  BackboneEntry entry;
  entry.params = fields.Describe();
  entry.create = [parse, make](const Value& config, const std::string& where,
                               const BackboneContext& context, ParameterSet& parameters) {
    return make(parse(config, where), where, context, parameters);
  };
  entry.resolve = [&fields, parse](const Value& config, const std::string& where,
                                   const MixerRegistry& mixers) {
    Config parsed = parse(config, where);
    parsed.sequence_mixer = ResolveMixer(parsed.sequence_mixer, where + "/sequence_mixer", mixers);
    return fields.Write(parsed);
  };
  entry.num_layers = [parse](const Value& config) { return parse(config, "").n_layers; };
  return entry;
}

// The `make` of a backbone whose constructor takes the same arguments.
template <typename Model>
constexpr auto kMakeBackbone = [](const auto& config, const std::string& where,
                                  const BackboneContext& context, ParameterSet& parameters) {
  return std::make_unique<Model>(config, where, context, parameters);
};

}  // namespace mixerbench::models
