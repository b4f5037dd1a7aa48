// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/mixer_layers.h"

#include <utility>

#include <ATen/TensorOperators.h>

#include "base/check.h"
#include "kernels/plan.h"

namespace mixerbench::models {
namespace {

constexpr char kEmbeddings[] = "embeddings";
constexpr char kPreviousOutput[] = "previous_output";

}  // namespace

std::string LayerName(std::int64_t layer) { return "layers." + std::to_string(layer); }

ParameterScope LayerScope(ParameterSet& parameters, std::int64_t layer) {
  return ParameterScope(parameters).Child(LayerName(layer));
}

MixerLayers::MixerLayers(const Value& config, const std::string& where,
                         const BackboneContext& context, std::int64_t d_model,
                         std::int64_t num_layers, ParameterSet& parameters) {
  MixerContext mixer_context{.d_model = d_model,
                             .num_layers = num_layers,
                             .max_seq_len = context.max_seq_len,
                             .registry = context.mixers,
                             .offered = {kEmbeddings}};
  for (std::int64_t layer = 0; layer < num_layers; ++layer) {
    mixer_context.layer_index = layer;
    mixers_.push_back(
        CreateMixer(config, where, mixer_context, LayerScope(parameters, layer).Child("mixer")));
    const MixerTraits traits = mixers_.back()->traits();
    read_.insert(traits.reads.begin(), traits.reads.end());
    mixer_context.offered.insert(kPreviousOutput);
    mixer_context.offered.insert(traits.offers.begin(), traits.offers.end());
  }
}

MixerLayers::Pass::Pass(const MixerLayers& layers, const BackboneOptions& options,
                        const at::Tensor& embeddings, BackboneOutput& output)
    : layers_(layers), options_(options), output_(output) {
  if (layers.read_.contains(kEmbeddings)) {
    values_[kEmbeddings] = embeddings.to(options.compute_dtype);
  }
}

at::Tensor MixerLayers::Pass::Next(const at::Tensor& x) {
  const std::string name = LayerName(layer_);
  const bool is_last = layer_ + 1 == layers_.size();
  const MixerOptions options{.path = options_.path,
                             .initial_state = Inner(options_.initial_state, name),
                             .want_final_state = options_.want_final_state,
                             .rows = is_last ? options_.rows : nullptr,
                             .taps = options_.taps.Child(name),
                             .generator = options_.generator};
  const kernels::PlanScope scope(name);
  const Mixer& mixer = *layers_.mixers_[static_cast<std::size_t>(layer_)];
  MixerResult result =
      Forward(mixer, {.x = x.to(options_.compute_dtype), .values = values_}, options);
  if (options_.want_final_state) output_.final_state.inner[name] = std::move(result.final_state);
  for (auto& [key, value] : result.offers) values_[key] = std::move(value);
  for (const auto& [key, value] : result.losses) {
    at::Tensor& sum = output_.losses[key];
    sum = sum.defined() ? sum + value : value;
  }
  if (layers_.read_.contains(kPreviousOutput)) values_[kPreviousOutput] = result.y;
  ++layer_;
  return result.y;
}

State MixerLayers::InitialState(std::int64_t batch_size) const {
  State state;
  for (std::int64_t layer = 0; layer < size(); ++layer) {
    state.inner[LayerName(layer)] =
        mixers_[static_cast<std::size_t>(layer)]->InitialState(batch_size);
  }
  return state;
}

std::map<std::string, double> MixerLayers::losses() const {
  std::map<std::string, double> losses;
  for (const auto& mixer : mixers_) losses.merge(mixer->traits().losses);
  return losses;
}

}  // namespace mixerbench::models
