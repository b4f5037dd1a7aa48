// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/s6/s6.h"

#include <memory>
#include <string>

#include "models/blocks/selective_ssm.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::s6 {
namespace {

const Fields<S6Config>& ConfigFields() {
  static const auto fields = [] {
    Fields<S6Config> all;
    AddSelectiveSsmFields(all);
    all.Add("fused", &S6Config::fused,
            "false: the scan by standard operations over all states, to compare with");
    return all;
  }();
  return fields;
}

class S6 final : public Mixer {
 public:
  S6(const SelectiveSsmLayout& layout, const ParameterScope& scope) : ssm_(layout, scope) {}

  State InitialState(std::int64_t batch_size) const override {
    State state;
    ssm_.AddInitialState(batch_size, state);
    return state;
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    Mixed mixed;
    mixed.tokens = {{ssm_(inputs.x, /*z=*/{}, options, mixed)}};
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions&) const override {
    return mixed.tokens[0].value;
  }

 private:
  SelectiveSsm ssm_;
};

std::unique_ptr<Mixer> Make(const S6Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  SelectiveSsmLayout layout = SelectiveSsmLayoutOf(config, context.d_model, context.d_model, where);
  layout.fused = config.fused;
  return std::make_unique<S6>(layout, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "S6: a selective state space per channel, without projections around it";
  entry.source = "arXiv 2312.00752";
  entry.test_configs = {
      Object{
          {"d_state", 4}, {"dt_rank", 2}, {"dt_min", 0.01}, {"dt_max", 1}, {"dt_init_floor", 0.02}},
      Object{{"fused", false}},
  };
  registry.Add("s6", std::move(entry));
}

}  // namespace mixerbench::models::s6
