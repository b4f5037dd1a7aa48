// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/holding_mixer.h"

#include <algorithm>

#include "kernels/runtime/plan.h"

namespace mixerbench::models {

MixerTraits HoldingMixer::traits() const {
  MixerTraits joined;
  for (const auto& [name, mixer] : held_) {
    MixerTraits traits = mixer->traits();
    joined.reads.merge(traits.reads);
    joined.offers.merge(traits.offers);
    joined.losses.merge(traits.losses);
    joined.discrete = joined.discrete || traits.discrete;
    if (traits.max_seq_len == 0) continue;
    joined.max_seq_len = joined.max_seq_len == 0 ? traits.max_seq_len
                                                 : std::min(joined.max_seq_len, traits.max_seq_len);
  }
  return joined;
}

State HoldingMixer::InitialState(std::int64_t batch_size) const {
  State state;
  for (const auto& [name, mixer] : held_) state.inner[name] = mixer->InitialState(batch_size);
  return state;
}

Mixed HoldingMixer::Mix(const MixerInputs& inputs, const MixerOptions& options) const {
  Mixed mixed;
  for (const auto& [name, mixer] : held_) {
    const kernels::PlanScope scope(name);
    mixed.Hold(name, mixer->Mix(inputs, options.Inner(name)));
  }
  return mixed;
}

void HoldingMixer::Add(const std::string& name, const Value& config, const std::string& where,
                       const MixerContext& context, const ParameterScope& scope) {
  held_.emplace_back(name, CreateMixer(config, where, context, scope.Child(name)));
}

at::Tensor HoldingMixer::OutputOf(std::size_t i, const Mixed& mixed,
                                  const MixerOptions& options) const {
  const auto& [name, mixer] = held_[i];
  const kernels::PlanScope scope(name);
  return mixer->Output(mixed.inner[i], options.Inner(name));
}

std::string ItemPointer(const std::string& where, std::size_t index) {
  return where + "/" + std::to_string(index);
}

Value ResolveHeld(const Value& mixer, const std::string& where, const MixerRegistry& registry) {
  return ResolveMixer(mixer, where, registry);
}

std::vector<Value> ResolveHeld(const std::vector<Value>& mixers, const std::string& where,
                               const MixerRegistry& registry) {
  std::vector<Value> resolved;
  for (std::size_t i = 0; i < mixers.size(); ++i) {
    resolved.push_back(ResolveMixer(mixers[i], ItemPointer(where, i), registry));
  }
  return resolved;
}

}  // namespace mixerbench::models
