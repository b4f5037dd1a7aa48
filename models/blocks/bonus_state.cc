// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/bonus_state.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "kernels/rwkv6/rwkv6.h"
#include "models/blocks/write_strength.h"

namespace mixerbench::models {
namespace {

constexpr char kState[] = "state";

}  // namespace

MatrixCore BonusState(const at::Tensor& bonus, const MatrixLayout& layout) {
  const auto run = [bonus](kernels::RecurrenceArgs args, const MixerOptions& options,
                           Mixed& mixed) {
    args.initial_state = Find(options.initial_state, kState);
    args.scale = 1;
    const kernels::RecurrenceResult result = kernels::Rwkv6(args, bonus, options.path);
    if (options.taps) {
      TapState(options.taps, result.final_state);
      options.taps.Record("bonus", bonus);
    }
    if (options.want_final_state) mixed.final_state.tensors[kState] = {result.final_state};
    return result.o;
  };
  return {run, {{kState, {layout.num_heads, layout.head_k_dim, layout.head_v_dim}}}};
}

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

at::Tensor RwkvStart::Decay() const {
  const auto last = static_cast<double>(std::max<std::int64_t>(d_model_ - 1, 1));
  return (at::arange(d_model_, at::kDouble) / last).pow(0.7 + 1.3 * depth_) * 5 - 6;
}

at::Tensor RwkvStart::Bonus() const {
  const at::Tensor index = at::arange(d_model_, at::kDouble);
  return depth_ * (1 - index / static_cast<double>(d_model_)) +
         ((index + 1).remainder(3) - 1) * 0.1;
}

}  // namespace mixerbench::models
