// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/linear.h"

#include <cmath>

namespace mixerbench::models {

using kernels::ExecutionPath;

Init FanInUniform(std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return Init::Uniform(-bound, bound);
}

Linear::Linear(const ParameterScope& scope, std::int64_t in, std::int64_t out, bool bias)
    : weight_(scope.Add("weight", {out, in}, ParameterRole::kLinearWeight, FanInUniform(in))),
      narrow_weight_(scope.NarrowCopy("weight")) {
  if (!bias) return;
  bias_ = scope.Add("bias", {out}, ParameterRole::kLinearBias, FanInUniform(in));
  narrow_bias_ = scope.NarrowCopy("bias");
}

kernels::fused::NarrowParameters Linear::Narrow() const {
  return {*narrow_weight_, narrow_bias_ != nullptr ? *narrow_bias_ : at::Tensor()};
}

at::Tensor Linear::operator()(const at::Tensor& x, ExecutionPath path) const {
  return kernels::fused::Linear(x, weight_, bias_, path, Narrow());
}

std::vector<at::Tensor> Linear::Columns(const at::Tensor& x,
                                        const std::vector<kernels::fused::ColumnBlock>& blocks,
                                        const kernels::fused::RowSelection* rows,
                                        ExecutionPath path) const {
  return kernels::fused::LinearColumns(x, weight_, bias_, blocks, rows, path, Narrow());
}

at::Tensor Linear::WithoutBias(const at::Tensor& x, ExecutionPath path) const {
  return kernels::fused::Linear(x, weight_, /*bias=*/{}, path, Narrow());
}

}  // namespace mixerbench::models
