// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/mixer_layers.h"

#include <utility>

#include <ATen/TensorOperators.h>

#include "base/check.h"
#include "kernels/plan.h"

namespace mixerbench::models {

ParameterScope LayerScope(ParameterSet& parameters, std::int64_t layer) {
  return ParameterScope(parameters, "layers." + std::to_string(layer) + ".");
}

MixerLayers::MixerLayers(const Value& config, const std::string& where,
                         const BackboneContext& context, std::int64_t d_model,
                         std::int64_t num_layers, ParameterSet& parameters) {
  for (std::int64_t layer = 0; layer < num_layers; ++layer) {
    const MixerContext mixer_context{.d_model = d_model,
                                     .layer_index = layer,
                                     .num_layers = num_layers,
                                     .max_seq_len = context.max_seq_len,
                                     .registry = context.mixers};
    mixers_.push_back(
        CreateMixer(config, where, mixer_context, LayerScope(parameters, layer).Child("mixer")));
  }
}

MixerLayers::Output MixerLayers::Forward(std::int64_t layer, const at::Tensor& x,
                                         const BackboneOptions& options, bool split_bias,
                                         BackboneOutput& output) const {
  const auto index = static_cast<std::size_t>(layer);
  ForwardOptions forward{.path = options.path,
                         .initial_state = nullptr,
                         .want_final_state = options.want_final_state,
                         .taps = options.taps,
                         .generator = options.generator,
                         .split_bias = split_bias};
  const bool is_last = layer + 1 == size();
  if (is_last) forward.rows = options.rows;
  if (options.initial_state != nullptr) {
    Require(index < options.initial_state->size(), "one initial state for each layer");
    forward.initial_state = &(*options.initial_state)[index];
  }
  if (options.taps != nullptr) options.taps->prefix = "layers." + std::to_string(layer) + ".";
  const kernels::PlanScope scope("layers." + std::to_string(layer));
  MixerOutput result = mixers_[index]->Forward(x.to(options.compute_dtype), forward);
  if (options.want_final_state) output.final_state.push_back(std::move(result.final_state));
  if (result.auxiliary_loss.defined()) {
    output.auxiliary_loss = output.auxiliary_loss.defined()
                                ? output.auxiliary_loss + result.auxiliary_loss
                                : result.auxiliary_loss;
  }
  // A mixer that returns all its outputs leaves the choice to us.
  const bool choose = forward.rows != nullptr && result.y.dim() == 3;
  return {choose ? kernels::fused::GatherRows(result.y, *options.rows, options.path) : result.y,
          result.bias};
}

std::vector<State> MixerLayers::InitialState(std::int64_t batch_size) const {
  std::vector<State> states;
  for (const auto& mixer : mixers_) states.push_back(mixer->InitialState(batch_size));
  return states;
}

StateSize MixerLayers::state_size(std::int64_t num_tokens) const {
  StateSize total;
  for (const auto& mixer : mixers_) {
    const StateSize size = mixer->state_size(num_tokens);
    total.recurrent += size.recurrent;
    total.conv += size.conv;
  }
  return total;
}

}  // namespace mixerbench::models
