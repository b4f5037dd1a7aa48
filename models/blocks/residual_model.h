// Residual layers with a head: a whole language model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "models/backbone.h"
#include "models/blocks/linear.h"
#include "models/blocks/residual_layers.h"

namespace mixerbench::models {

enum class HeadKind {
  kTied,  // the embedding is its weight
  kUntied,
  kUntiedWithBias,
};

class ResidualModel final : public Backbone {
 public:
  // Parameters of ResidualLayers; of a head that is not tied "head.weight" and, with a bias,
  // "head.bias".
  ResidualModel(const ResidualLayersConfig& config, HeadKind head, const std::string& where,
                const BackboneContext& context, ParameterSet& parameters);

  BackboneOutput Forward(const at::Tensor& tokens, const BackboneOptions& options) const override;
  Head head() const override;
  State InitialState(std::int64_t batch_size) const override;
  std::map<std::string, double> losses() const override;

 private:
  ResidualLayers layers_;
  std::optional<Linear> untied_head_;
};

}  // namespace mixerbench::models
