// What a mixer is with its default options, measured: it is built and run once, on a few tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/value.h"
#include "harness/suite/registries.h"
#include "models/mixer.h"

namespace mixerbench::harness {

struct MixerFacts {
  std::int64_t d_model = 0;  // of the mixer that was built, the first of two layers
  std::int64_t num_parameters = 0;
  models::StateSize state = {};         // before the first token
  double state_per_token = 0;           // elements that a token adds
  std::vector<std::string> cores = {};  // that it calls, in order of names
  models::MixerTraits traits = {};
  std::vector<std::string> taps = {};  // that it records (models/taps.h), in order of names
};

// nullopt of a mixer that has no defaults.
std::optional<MixerFacts> MeasureMixer(const std::string& name, const Registries& registries);

// {"form", "d_model", "num_parameters", "state", "cores", "reads", "offers", "losses", "discrete",
// "taps"}.
// A core is {"name", "device_plans"}, without plans when it has no device code.
Object FactsToValue(const MixerFacts& facts, const Registries& registries);
std::string FactsToText(const MixerFacts& facts);

}  // namespace mixerbench::harness
