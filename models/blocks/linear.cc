// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/linear.h"

#include <cmath>

namespace mixerbench::models {

Init FanInUniform(std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return Init::Uniform(-bound, bound);
}

Linear::Linear(const ParameterScope& scope, std::int64_t in, std::int64_t out, bool bias,
               ParameterRole role)
    : weight_(scope.Add("weight", {out, in}, role, FanInUniform(in))),
      shadow_weight_(scope.Shadow("weight")) {
  if (!bias) return;
  bias_ = scope.Add("bias", {out}, ParameterRole::kLinearBias, FanInUniform(in));
  shadow_bias_ = scope.Shadow("bias");
}

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
