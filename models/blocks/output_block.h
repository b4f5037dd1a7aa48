// What follows a core with heads: norm, gate, projection.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "models/blocks/linear.h"
#include "models/blocks/norms.h"
#include "models/mixer.h"
#include "models/parameters.h"

namespace mixerbench::models {

struct OutputLayout {
  bool norm = true;  // RMSNorm per head; without it there is no gate
  OutputGate gate = OutputGate::kNone;
  double eps = 1e-5;
};

class OutputBlock {
 public:
  // Parameters `o_norm` and, unless whoever holds the mixer projects, `o_proj`.
  OutputBlock(const OutputLayout& layout, std::int64_t num_heads, std::int64_t head_v_dim,
              const MixerContext& context, const ParameterScope& scope);

  std::int64_t output_dim() const { return output_dim_; }

  // o [...,H,V]; the logits of its gate [...,H V], undefined without -> [...,output_dim], dtype of
  // o.
  at::Tensor operator()(const at::Tensor& o, const at::Tensor& gate,
                        kernels::ExecutionPath path) const;

 private:
  std::optional<OutputNorm> norm_;
  std::optional<Linear> o_proj_;
  std::int64_t output_dim_;
};

}  // namespace mixerbench::models
