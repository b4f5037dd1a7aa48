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

}  // namespace mixerbench::models
