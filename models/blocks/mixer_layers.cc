// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/mixer_layers.h"

#include <sstream>
#include <utility>

#include <ATen/TensorOperators.h>

#include "base/check.h"
#include "base/error.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::models {
namespace {

constexpr char kEmbeddings[] = "embeddings";
constexpr char kPreviousOutput[] = "previous_output";

void AddLosses(const std::map<std::string, double>& of_layer, const std::string& where,
               std::map<std::string, double>& losses) {
  for (const auto& [name, weight] : of_layer) {
    const auto [known, is_new] = losses.emplace(name, weight);
    if (is_new || known->second == weight) continue;
    std::ostringstream text;
    text << "the auxiliary loss " << name << " has the weights " << known->second << " and "
         << weight
         << " in two layers, which sum it by name; give all layers one weight, or the loss two "
            "names";
    throw ConfigError(where, text.str());
  }
}

}  // namespace

std::string LayerName(std::int64_t layer) { return "layers." + std::to_string(layer); }

ParameterScope LayerScope(ParameterSet& parameters, std::int64_t layer) {
  return ParameterScope(parameters).Child(LayerName(layer));
}

MixerLayers::MixerLayers(const Value& config, const std::string& where,
                         const BackboneContext& context, std::int64_t d_model,
                         std::int64_t num_layers, ParameterSet& parameters,
                         const ChannelMixers& channel_mixers)
    : channels_name_(channel_mixers.name) {
  MixerContext mixer_context{.d_model = d_model,
                             .num_layers = num_layers,
                             .max_seq_len = context.max_seq_len,
                             .registry = context.mixers,
                             .offered = {kEmbeddings}};
  for (std::int64_t layer = 0; layer < num_layers; ++layer) {
    mixer_context.layer_index = layer;
    const ParameterScope scope = LayerScope(parameters, layer);
    Layer& made = layers_.emplace_back();
    made.mixer = CreateMixer(config, where, mixer_context, scope.Child("mixer"));
    made.channels =
        MakeChannelMixer(channel_mixers.config, mixer_context, scope.Child(channels_name_));
    const MixerTraits traits = made.mixer->traits();
    read_.insert(traits.reads.begin(), traits.reads.end());
    AddLosses(traits.losses, where, losses_);
    mixer_context.offered.insert(kPreviousOutput);
    mixer_context.offered.insert(traits.offers.begin(), traits.offers.end());
  }
  const Mixer* channels = layers_.back().channels.get();
  channels_have_state_ = channels != nullptr && !channels->InitialState(1).tensors.empty();
}

bool MixerLayers::reads_embeddings() const { return read_.contains(kEmbeddings); }

MixerLayers::Pass::Pass(const MixerLayers& layers, const BackboneOptions& options,
                        const at::Tensor& embeddings, BackboneOutput& output)
    : layers_(layers), options_(options), output_(output) {
  if (layers.reads_embeddings()) values_[kEmbeddings] = embeddings.to(options.compute_dtype);
}

MixerResult MixerLayers::Pass::Run(const Mixer& mixer, const std::string& name, bool has_state,
                                   const MixerInputs& inputs, const ScoredPositions* scored) {
  const MixerOptions options{
      .path = options_.path,
      .initial_state = has_state ? Inner(options_.initial_state, name) : nullptr,
      .want_final_state = has_state && options_.want_final_state,
      .scored = scored,
      .taps = options_.taps.Child(name),
      .generator = options_.generator};
  const kernels::PlanScope scope(name);
  MixerResult result = Forward(mixer, inputs, options);
  if (options.want_final_state) output_.final_state.inner[name] = std::move(result.final_state);
  for (const auto& [key, value] : result.losses) {
    at::Tensor& sum = output_.losses[key];
    sum = sum.defined() ? sum + value : value;
  }
  return result;
}

const ScoredPositions* MixerLayers::Pass::ScoredOfNext() const {
  const bool is_last = layer_ + 1 == layers_.size() && !layers_.channels_have_state_;
  return is_last ? options_.scored : nullptr;
}

const ScoredPositions* MixerLayers::Pass::ScoredOfNextChannels() const {
  const bool is_last = layer_ == layers_.size() && layers_.channels_have_state_;
  return is_last ? options_.scored : nullptr;
}

at::Tensor MixerLayers::Pass::Next(const at::Tensor& x) {
  const Layer& layer = layers_.layers_[static_cast<std::size_t>(layer_)];
  MixerResult result = Run(*layer.mixer, LayerName(layer_), /*has_state=*/true,
                           {.x = x.to(options_.compute_dtype), .values = values_}, ScoredOfNext());
  for (auto& [key, value] : result.offers) values_[key] = std::move(value);
  if (layers_.read_.contains(kPreviousOutput)) values_[kPreviousOutput] = result.y;
  ++layer_;
  return result.y;
}

at::Tensor MixerLayers::Pass::NextChannels(const at::Tensor& x) {
  const std::int64_t index = layer_ - 1;
  const Layer& layer = layers_.layers_[static_cast<std::size_t>(index)];
  if (layer.channels == nullptr) return x;
  return Run(*layer.channels, layers_.ChannelsName(index), layers_.channels_have_state_, {.x = x},
             ScoredOfNextChannels())
      .y;
}

State MixerLayers::InitialState(std::int64_t batch_size) const {
  State state;
  for (std::int64_t index = 0; index < size(); ++index) {
    const Layer& layer = layers_[static_cast<std::size_t>(index)];
    state.inner[LayerName(index)] = layer.mixer->InitialState(batch_size);
    if (!channels_have_state_) continue;
    state.inner[ChannelsName(index)] = layer.channels->InitialState(batch_size);
  }
  return state;
}

std::string MixerLayers::ChannelsName(std::int64_t layer) const {
  return LayerName(layer) + "." + channels_name_;
}

}  // namespace mixerbench::models
