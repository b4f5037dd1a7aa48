// The sequence mixers of a backbone, one for each layer, and what passes between them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/value.h"
#include "models/backbone.h"

namespace mixerbench::models {

class MixerLayers {
 public:
  // Creates `config` once for each layer, parameters under "layers.<i>.mixer.". Throws ConfigError
  // when a mixer reads what no layer before it offers.
  MixerLayers(const Value& config, const std::string& where, const BackboneContext& context,
              std::int64_t d_model, std::int64_t num_layers, ParameterSet& parameters);

  std::int64_t size() const { return static_cast<std::int64_t>(mixers_.size()); }

  // One pass through the layers, in order.
  class Pass {
   public:
    // `embeddings` [B,T,D]: the start of the residual stream. States, offers and losses go to
    // `output`; all three must outlive the pass.
    Pass(const MixerLayers& layers, const BackboneOptions& options, const at::Tensor& embeddings,
         BackboneOutput& output);

    // The next layer's mixer on x [B,T,D]. Returns [B,T,D], of the last layer [M,D] when
    // options.rows selects M tokens.
    at::Tensor Next(const at::Tensor& x);

   private:
    const MixerLayers& layers_;
    const BackboneOptions& options_;
    BackboneOutput& output_;
    std::int64_t layer_ = 0;
    NamedTensors values_;  // that mixers may read
  };

  State InitialState(std::int64_t batch_size) const;
  // Auxiliary losses of all layers with their default weights.
  std::map<std::string, double> losses() const;

 private:
  std::vector<std::unique_ptr<Mixer>> mixers_;
  std::set<std::string> read_;  // by any of them
};

// "layers.<i>", the scope of a layer's parameters, states and taps.
std::string LayerName(std::int64_t layer);
ParameterScope LayerScope(ParameterSet& parameters, std::int64_t layer);

}  // namespace mixerbench::models
