// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/linear.h"

#include <cmath>

namespace mixerbench::models {

Init FanInUniform(std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return Init::Uniform(-bound, bound);
}

namespace {

Init WeightInit(LinearInit init, std::int64_t in, std::int64_t out) {
  if (init == LinearInit::kBackbone) return FanInUniform(in);
  const double bound = std::exp2(-2.5) * std::sqrt(6 / static_cast<double>(in + out));
  return Init::Uniform(-bound, bound);
}

at::Tensor AddLayers(const ParameterScope& scope, std::int64_t in,
                     const std::vector<LinearRows>& layers) {
  std::vector<RowBlock> blocks;
  for (const LinearRows& layer : layers) {
    if (layer.out > 0) blocks.push_back({layer.out, WeightInit(layer.init, in, layer.out)});
  }
  return scope.AddRows("weight", blocks, in, ParameterRole::kLinearWeight);
}

}  // namespace

Linear::Linear(const ParameterScope& scope, std::int64_t in, std::int64_t out, bool bias,
               ParameterRole role, LinearInit init, std::optional<Init> bias_init)
    : weight_(scope.Add("weight", {out, in}, role, WeightInit(init, in, out))),
      shadow_weight_(scope.Shadow("weight")) {
  if (!bias) return;
  const Init by_init = init == LinearInit::kXavier ? Init::Constant(0) : FanInUniform(in);
  bias_ = scope.Add("bias", {out}, ParameterRole::kLinearBias, bias_init.value_or(by_init));
  shadow_bias_ = scope.Shadow("bias");
}

Linear::Linear(const ParameterScope& scope, std::int64_t in, const std::vector<LinearRows>& layers)
    : weight_(AddLayers(scope, in, layers)), shadow_weight_(scope.Shadow("weight")) {}

kernels::ShadowWeights Linear::Narrow() const {
  return {*shadow_weight_, shadow_bias_ != nullptr ? *shadow_bias_ : at::Tensor()};
}

at::Tensor Linear::operator()(const at::Tensor& x, kernels::ExecutionPath path) const {
  return kernels::Linear(x, weight_, bias_, path, Narrow());
}

std::vector<at::Tensor> Linear::Columns(const at::Tensor& x,
                                        const std::vector<kernels::ColumnBlock>& blocks,
                                        const kernels::ScoredPositions* scored,
                                        kernels::ExecutionPath path) const {
  return kernels::LinearColumns(x, weight_, bias_, blocks, scored, path, Narrow());
}

}  // namespace mixerbench::models
