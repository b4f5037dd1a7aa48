// What wrappers share: traits, states and Mix of the mixers that they hold, nested under names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "base/value.h"
#include "models/mixer.h"
#include "models/parameters.h"

namespace mixerbench::models {

class HoldingMixer : public Mixer {
 public:
  // Of all that are held, joined.
  MixerTraits traits() const override;
  State InitialState(std::int64_t batch_size) const override;
  // Every held mixer on the same inputs; what it leaves is mixed.inner, in order of Add.
  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override;

 protected:
  // Creates `config` and holds it under `name`, which is the scope of its parameters too.
  void Add(const std::string& name, const Value& config, const std::string& where,
           const MixerContext& context, const ParameterScope& scope);
  std::size_t num_held() const { return held_.size(); }
  const Mixer& held(std::size_t i) const { return *held_[i].second; }
  // Output of the i-th.
  at::Tensor OutputOf(std::size_t i, const Mixed& mixed, const MixerOptions& options) const;

 private:
  std::vector<std::pair<std::string, std::unique_ptr<Mixer>>> held_;
};

// The JSON pointer of an item of the list at `where`.
std::string ItemPointer(const std::string& where, std::size_t index);

// What a config holds, one mixer or a list of them, with every default filled in (ResolveMixer).
// `where` is its JSON pointer. Throws ConfigError.
Value ResolveHeld(const Value& mixer, const std::string& where, const MixerRegistry& registry);
std::vector<Value> ResolveHeld(const std::vector<Value>& mixers, const std::string& where,
                               const MixerRegistry& registry);

// MakeMixerEntry (mixer_entry.h) for a config whose member `held`, the option `option`, is what it
// holds:
//   Config parse(const Value&, const std::string& where)
//   std::unique_ptr<Mixer> make(const Config&, const std::string& where, const MixerContext&,
//                               const ParameterScope&)
template <typename Config, typename Parse, typename Held, typename Make>
MixerEntry MakeHoldingEntry(const Fields<Config>& fields, Parse parse, const std::string& option,
                            Held Config::*held, Make make) {
  MixerEntry entry;
  entry.params = fields.Describe();
  entry.create = [parse, make](const Value& config, const std::string& where,
                               const MixerContext& context, const ParameterScope& scope) {
    return make(parse(config, where), where, context, scope);
  };
  entry.resolve = [&fields, parse, option, held](const Value& config, const std::string& where,
                                                 const MixerRegistry& registry) {
    Config parsed = parse(config, where);
    parsed.*held = ResolveHeld(parsed.*held, where + "/" + option, registry);
    return fields.Write(parsed);
  };
  return entry;
}

}  // namespace mixerbench::models
