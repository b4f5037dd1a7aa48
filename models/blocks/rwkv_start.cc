// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/rwkv_start.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

namespace mixerbench::models {

RwkvStart::RwkvStart(const MixerContext& context) : d_model_(context.d_model) {
  const auto layer = static_cast<double>(context.layer_index);
  const auto num_layers = static_cast<double>(context.num_layers);
  remaining_ = 1 - layer / num_layers;
  depth_ = context.num_layers > 1 ? layer / (num_layers - 1) : 0;
}

at::Tensor RwkvStart::Share(double exponent) const {
  return (at::arange(d_model_, at::kDouble) / static_cast<double>(d_model_))
      .pow(exponent * remaining_);
}

at::Tensor RwkvStart::ValueShare() const { return Share(1) + 0.3 * depth_; }

at::Tensor RwkvStart::Decay() const { return Ramp().pow(0.7 + 1.3 * depth_) * 5 - 6; }

at::Tensor RwkvStart::Bonus() const {
  const at::Tensor index = at::arange(d_model_, at::kDouble);
  return depth_ * (1 - Ramp()) + ((index + 1).remainder(3) - 1) * 0.1;
}

at::Tensor RwkvStart::Ramp() const {
  const auto last = static_cast<double>(std::max<std::int64_t>(d_model_ - 1, 1));
  return at::arange(d_model_, at::kDouble) / last;
}

}  // namespace mixerbench::models
