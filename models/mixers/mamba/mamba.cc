// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mamba/mamba.h"

#include <memory>
#include <optional>
#include <string>

#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"
#include "models/blocks/selective_ssm.h"
#include "models/blocks/short_convolution.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::mamba {
namespace {

constexpr char kConvolution[] = "conv";

const Fields<MambaConfig>& ConfigFields() {
  static const auto fields = [] {
    Fields<MambaConfig> all;
    all.Add("expand", &MambaConfig::expand, "channels per channel of d_model")
        .Add("conv_size", &MambaConfig::conv_size, "width of the convolution with silu before S6")
        .Add("conv_bias", &MambaConfig::conv_bias, "bias of that convolution");
    AddSelectiveSsmFields(all);
    return all;
  }();
  return fields;
}

class Mamba final : public Mixer {
 public:
  Mamba(const MambaConfig& config, const SelectiveSsmLayout& layout, const MixerContext& context,
        const ParameterScope& scope)
      : num_channels_(layout.num_channels),
        in_proj_(scope.Child("in_proj"), context.d_model, 2 * num_channels_, /*bias=*/false),
        conv_(scope.Child("conv"), num_channels_, config.conv_size, config.conv_bias),
        ssm_(layout, scope) {
    if (!context.output_projection) return;
    out_proj_.emplace(scope.Child("out_proj"), num_channels_, context.d_model, /*bias=*/false,
                      ParameterRole::kResidualOutputWeight);
  }

  MixerTraits traits() const override { return {.output_dim = out_proj_ ? 0 : num_channels_}; }

  State InitialState(std::int64_t batch_size) const override {
    State state;
    ssm_.AddInitialState(batch_size, state);
    state.tensors[kConvolution] = {conv_.InitialHistory(batch_size), StateKind::kConvolution};
    return state;
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    Mixed mixed;
    const std::vector<at::Tensor> columns =
        in_proj_.Columns(inputs.x, {num_channels_, num_channels_}, /*rows=*/nullptr, options.path);
    const auto convolved =
        conv_(columns[0], Find(options.initial_state, kConvolution), options.path, {.silu = true});
    if (options.want_final_state) {
      mixed.final_state.tensors[kConvolution] = {convolved.history, StateKind::kConvolution};
    }
    mixed.tokens = {{ssm_(convolved.y, columns[1], options, mixed)}};
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor& y = mixed.tokens[0].value;
    return out_proj_ ? (*out_proj_)(y, options.path) : y;
  }

 private:
  std::int64_t num_channels_;
  Linear in_proj_;  // rows: x, z
  ShortConvolution conv_;
  SelectiveSsm ssm_;
  std::optional<Linear> out_proj_;
};

std::unique_ptr<Mixer> Make(const MambaConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.expand, 1, 64, where, "expand");
  CheckRange(config.conv_size, 1, 64, where, "conv_size");
  const SelectiveSsmLayout layout =
      SelectiveSsmLayoutOf(config, context.d_model, config.expand * context.d_model, where);
  return std::make_unique<Mamba>(config, layout, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "Mamba: a selective state space between a convolution and a gate";
  entry.source = "arXiv 2312.00752";
  entry.test_configs = {
      Object{{"expand", 1},
             {"d_state", 4},
             {"conv_size", 3},
             {"conv_bias", false},
             {"dt_rank", 2},
             {"dt_min", 0.01},
             {"dt_max", 1},
             {"dt_init_floor", 0.02}},
  };
  registry.Add("mamba", std::move(entry));
}

}  // namespace mixerbench::models::mamba
