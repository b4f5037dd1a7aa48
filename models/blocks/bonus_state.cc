// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/bonus_state.h"

#include "kernels/linear_attention/rwkv6/rwkv6.h"
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
      options.taps.Record("bonus", bonus.flatten());  // one axis: the same for all samples
    }
    if (options.want_final_state) mixed.final_state.tensors[kState] = {result.final_state};
    return result.o;
  };
  return {run, {{kState, {layout.num_heads, layout.head_k_dim, layout.head_v_dim}}}};
}

}  // namespace mixerbench::models
