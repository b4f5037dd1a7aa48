// The sequence mixers of a backbone, one for each layer, and the bookkeeping of their states.
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
  // Creates `config` once for each layer, parameters under "layers.<i>.mixer.".
  MixerLayers(const Value& config, const std::string& where, const BackboneContext& context,
              std::int64_t d_model, std::int64_t num_layers, ParameterSet& parameters);

  std::int64_t size() const { return static_cast<std::int64_t>(mixers_.size()); }

  // Runs the mixer of one layer on x [B,T,D] in the compute dtype: takes its initial state from
  // `options`, appends its final state and adds its auxiliary loss to `output`. Returns [B,T,D], of
  // the last layer [M,D] when options.rows selects M tokens.
  // `split_bias`: a bias of the mixer's last projection comes apart.
  struct Output {
    at::Tensor y;
    at::Tensor bias;  // [D]; undefined: none, or in y
  };
  Output Forward(std::int64_t layer, const at::Tensor& x, const BackboneOptions& options,
                 bool split_bias, BackboneOutput& output) const;

  std::vector<State> InitialState(std::int64_t batch_size) const;
  StateSize state_size(std::int64_t num_tokens) const;

 private:
  std::vector<std::unique_ptr<Mixer>> mixers_;
};

// "layers.<i>." in `parameters`.
ParameterScope LayerScope(ParameterSet& parameters, std::int64_t layer);

}  // namespace mixerbench::models
