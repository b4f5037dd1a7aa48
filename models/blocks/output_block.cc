// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/output_block.h"

#include "base/check.h"

namespace mixerbench::models {

OutputBlock::OutputBlock(const OutputLayout& layout, std::int64_t num_heads,
                         std::int64_t head_v_dim, const MixerContext& context,
                         const ParameterScope& scope)
    : output_dim_(num_heads * head_v_dim) {
  Require(layout.norm || layout.gate == OutputGate::kNone, "a gate stands after a norm");
  if (layout.norm) norm_.emplace(scope.Child("o_norm"), head_v_dim, layout.eps, layout.gate);
  if (!context.output_projection) return;
  o_proj_.emplace(scope.Child("o_proj"), output_dim_, context.d_model, /*bias=*/false);
  output_dim_ = context.d_model;
}

at::Tensor OutputBlock::operator()(const at::Tensor& o, const at::Tensor& gate,
                                   kernels::ExecutionPath path) const {
  const at::Tensor heads = norm_ ? (*norm_)(o, gate, path) : o.flatten(-2);
  return o_proj_ ? (*o_proj_)(heads, path) : heads;
}

}  // namespace mixerbench::models
