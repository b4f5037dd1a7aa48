// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/residual_model.h"

namespace mixerbench::models {

ResidualModel::ResidualModel(const ResidualLayersConfig& config, HeadKind head,
                             const std::string& where, const BackboneContext& context,
                             ParameterSet& parameters)
    : layers_(config, where, context, parameters) {
  if (head == HeadKind::kTied) return;
  untied_head_.emplace(ParameterScope(parameters, "head."), config.d_model, config.vocab_size,
                       /*bias=*/head == HeadKind::kUntiedWithBias);
}

BackboneOutput ResidualModel::Forward(const at::Tensor& tokens,
                                      const BackboneOptions& options) const {
  BackboneOutput output;
  const ResidualLayers::Result result = layers_(tokens, options, output);
  output.hidden = result.hidden;
  output.head = head();
  if (!untied_head_) output.head.weight = result.table;
  return output;
}

Head ResidualModel::head() const {
  if (untied_head_) {
    return {.weight = untied_head_->weight(),
            .bias = untied_head_->bias(),
            .narrow = untied_head_->Narrow()};
  }
  return {.weight = layers_.table(), .bias = {}, .narrow = {.weight = layers_.shadow_table()}};
}

State ResidualModel::InitialState(std::int64_t batch_size) const {
  return layers_.InitialState(batch_size);
}

std::map<std::string, double> ResidualModel::losses() const { return layers_.losses(); }

}  // namespace mixerbench::models
