// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/slot_memory.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/where.h>

#include "models/blocks/grouped_queries.h"
#include "models/blocks/write_strength.h"

namespace mixerbench::models {
namespace {

constexpr char kKeys[] = "keys";
constexpr char kValues[] = "values";

}  // namespace

std::vector<std::pair<std::string, std::vector<std::int64_t>>> SlotStates(
    const SlotLayout& layout) {
  return {{kKeys, {layout.num_heads, layout.head_k_dim, layout.num_slots}},
          {kValues, {layout.num_heads, layout.num_slots, layout.head_v_dim}}};
}

at::Tensor RunSlots(kernels::GsaArgs args, const MixerOptions& options, Mixed& mixed) {
  if (options.taps) options.taps.Record("slot_writes", args.slot_writes);
  args.initial_keys = Find(options.initial_state, kKeys);
  args.initial_values = Find(options.initial_state, kValues);
  const std::int64_t group = args.q.size(2) / args.k.size(2);
  RepeatHeads(group, /*dim=*/2, {&args.k, &args.v, &args.slot_writes, &args.log_decay});
  RepeatHeads(group, /*dim=*/1, {&args.initial_keys, &args.initial_values});
  const kernels::GsaResult result = kernels::Gsa(args, options.path);
  const at::Tensor keys = FirstOfGroups(result.final_keys, group);
  const at::Tensor values = FirstOfGroups(result.final_values, group);
  if (options.taps) {
    options.taps.Record("slot_probs", result.slot_probs);
    TapState(options.taps, at::cat({keys.mT(), values}, -1));
  }
  if (options.want_final_state) {
    mixed.final_state.tensors[kKeys] = {keys};
    mixed.final_state.tensors[kValues] = {values};
  }
  return result.o;
}

MatrixCore SlotMemory(const SlotLayout& layout) {
  const auto run = [layout](kernels::RecurrenceArgs args, const MixerOptions& options,
                            Mixed& mixed) {
    return RunSlots({.q = args.q,
                     .k = args.k,
                     .v = args.v,
                     .slot_writes = -at::expm1(args.log_decay),
                     .log_decay = args.log_decay,
                     .scale = layout.scale},
                    options, mixed);
  };
  return {.run = run, .states = SlotStates(layout), .has_slots = true};
}

at::Tensor TapSlotWrites(const TapScope& taps, const at::Tensor& log_decay) {
  if (!taps) return log_decay;
  const at::Tensor writes = -at::expm1(log_decay);
  return LogDecayOfWrites(TapMeanWriteGate(taps, writes), writes, log_decay);
}

at::Tensor LogDecayOfWrites(const at::Tensor& overridden, const at::Tensor& writes,
                            const at::Tensor& log_decay) {
  constexpr double kStrongest = 1 - 1e-6;  // scaled writes may exceed 1
  return at::where(overridden == writes, log_decay, at::log1p(-overridden.clamp_max(kStrongest)));
}

}  // namespace mixerbench::models
