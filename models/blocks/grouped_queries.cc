// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/grouped_queries.h"

#include "models/blocks/config_checks.h"
#include "models/blocks/write_strength.h"

namespace mixerbench::models {

void GroupQueries(std::int64_t num_kv_heads, const std::string& where, MatrixLayout& layout) {
  if (num_kv_heads == 0) return;
  layout.queries_per_key =
      DivideExactly(layout.num_heads, num_kv_heads, where, "num_kv_heads", "num_heads");
  layout.num_heads = layout.qk_heads = num_kv_heads;
}

void RepeatHeads(std::int64_t group, std::int64_t dim, std::initializer_list<at::Tensor*> tensors) {
  if (group == 1) return;
  for (at::Tensor* const x : tensors) {
    if (x->defined()) *x = x->repeat_interleave(group, dim);
  }
}

at::Tensor FirstOfGroups(const at::Tensor& state, std::int64_t group) {
  return group == 1 ? state : state.unflatten(1, {-1, group}).select(2, 0).contiguous();
}

MatrixCore GroupedState(kernels::RecurrenceFunction core, const MatrixLayout& layout) {
  MatrixCore grouped = OneState(core, layout);
  if (layout.queries_per_key == 1) return grouped;
  grouped.run = [core, state = grouped.states.front().first, group = layout.queries_per_key](
                    kernels::RecurrenceArgs args, const MixerOptions& options, Mixed& mixed) {
    args.initial_state = Find(options.initial_state, state);
    args.wants_final_state = options.want_final_state || options.taps;
    RepeatHeads(group, /*dim=*/2, {&args.k, &args.v, &args.log_decay, &args.beta});
    RepeatHeads(group, /*dim=*/1, {&args.initial_state});
    const kernels::RecurrenceResult result = core(args, options.path);
    if (!args.wants_final_state) return result.o;
    const at::Tensor last = FirstOfGroups(result.final_state, group);
    if (options.taps) TapState(options.taps, last);
    if (options.want_final_state) mixed.final_state.tensors[state] = {last};
    return result.o;
  };
  return grouped;
}

}  // namespace mixerbench::models
