// The mixers of a backbone, one over time and perhaps one over channels for each layer, and what
// passes between them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/value.h"
#include "models/backbone.h"
#include "models/blocks/channel_mixer.h"

namespace mixerbench::models {

// The channel mixer of every layer; "layers.<i>.<name>" is the scope of its parameters, state and
// taps.
struct ChannelMixers {
  std::string name = "channel_mixer";
  ChannelMixerConfig config = {};
};

class MixerLayers {
 public:
  // Creates `config` once for each layer, parameters under "layers.<i>.mixer.". Throws ConfigError
  // when a mixer reads what no layer before it offers.
  MixerLayers(const Value& config, const std::string& where, const BackboneContext& context,
              std::int64_t d_model, std::int64_t num_layers, ParameterSet& parameters,
              const ChannelMixers& channel_mixers = {});

  // Whether any mixer reads the embeddings.
  bool reads_embeddings() const;

  std::int64_t size() const { return static_cast<std::int64_t>(layers_.size()); }

  // One pass through the layers: Next, then NextChannels, in order.
  class Pass {
   public:
    // `embeddings` [B,T,D]: of the tokens, before positions and dropout; not used unless
    // reads_embeddings(). States, offers and losses go to `output`; it, `layers` and `options` must
    // outlive the pass.
    Pass(const MixerLayers& layers, const BackboneOptions& options, const at::Tensor& embeddings,
         BackboneOutput& output);

    // The next layer's mixer over time on x [B,T,D]. Returns [B,T,D], or [M,D] of ScoredOfNext.
    at::Tensor Next(const at::Tensor& x);
    // What Next will select: options.scored in the last mixer of all that has a state, since no
    // other tokens are needed from there on; nullptr: all.
    const ScoredPositions* ScoredOfNext() const;

    // The channel mixer of the layer whose mixer was the last of Next, on x [B,T,D] or, from
    // selected tokens, [M,D]; x itself when there is none.
    at::Tensor NextChannels(const at::Tensor& x);
    const ScoredPositions* ScoredOfNextChannels() const;

   private:
    MixerResult Run(const Mixer& mixer, const std::string& name, bool has_state,
                    const MixerInputs& inputs, const ScoredPositions* scored);

    const MixerLayers& layers_;
    const BackboneOptions& options_;
    BackboneOutput& output_;
    std::int64_t layer_ = 0;  // of Next
    NamedTensors values_;     // that mixers may read
  };

  State InitialState(std::int64_t batch_size) const;
  // Auxiliary losses of all layers with their default weights. The constructor throws ConfigError
  // where two layers give one of them two weights.
  const std::map<std::string, double>& losses() const { return losses_; }

 private:
  struct Layer {
    std::unique_ptr<Mixer> mixer;
    std::unique_ptr<Mixer> channels;  // nullptr: none
  };

  std::string ChannelsName(std::int64_t layer) const;

  std::vector<Layer> layers_;
  std::string channels_name_;
  bool channels_have_state_ = false;
  std::set<std::string> read_;  // by any of them
  std::map<std::string, double> losses_;
};

// "layers.<i>", the scope of a layer's parameters, states and taps.
std::string LayerName(std::int64_t layer);
ParameterScope LayerScope(ParameterSet& parameters, std::int64_t layer);

}  // namespace mixerbench::models
