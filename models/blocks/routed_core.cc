// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/routed_core.h"

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "models/blocks/delta_rule_gates.h"
#include "models/blocks/erase_tap.h"
#include "models/blocks/write_strength.h"

namespace mixerbench::models {
namespace {

constexpr char kRouted[] = "routed";
constexpr char kShared[] = "shared";

// What is erased of the routed states, and of the shared one under "shared".
void TapRoutedErase(const RoutedArgs& routed, const Routing& routing,
                    const std::optional<kernels::RecurrenceArgs>& shared,
                    const MixerOptions& options) {
  if (options.taps.Wants(kEraseTap)) {
    options.taps.Record(kEraseTap, RoutedErasedNorm(routed, routing, options.path));
  }
  if (const TapScope of_shared = options.taps.Child("shared");
      shared && of_shared.Wants(kEraseTap)) {
    of_shared.Record(kEraseTap, DeltaErasedNorm(*shared, options.path));
  }
}

}  // namespace

RoutedCore::RoutedCore(const RoutedLayout& layout, kernels::RecurrenceFunction core,
                       const ParameterScope& scope)
    : layout_(layout), core_(core), state_options_(scope.special_options()) {}

State RoutedCore::InitialState(std::int64_t batch_size) const {
  const auto zeros = [&](std::vector<std::int64_t> sizes) {
    sizes.insert(sizes.end(), {layout_.num_heads, layout_.head_k_dim, layout_.head_v_dim});
    return StateTensor{at::zeros(sizes, state_options_)};
  };
  State state;
  state.tensors[kRouted] = zeros({batch_size, layout_.num_states});
  if (layout_.has_shared) state.tensors[kShared] = zeros({batch_size});
  return state;
}

at::Tensor RoutedCore::Run(RoutedArgs routed, const Routing& routing,
                           std::optional<kernels::RecurrenceArgs> shared,
                           const MixerOptions& options, Mixed& mixed) const {
  Require(shared.has_value() == layout_.has_shared, "a shared state and what is written to it");
  const auto run = [&] { return RunRouted(routed, routing, core_, layout_.form, options.path); };
  routed.initial_state = Find(options.initial_state, kRouted);
  routed.wants_final_state = options.want_final_state;
  RoutedResult result = run();
  at::Tensor o = result.o;
  if (options.want_final_state) mixed.final_state.tensors[kRouted] = {result.final_state};

  kernels::RecurrenceResult of_shared;
  if (shared) {
    shared->initial_state = Find(options.initial_state, kShared);
    shared->wants_final_state = options.want_final_state || options.taps;
    of_shared = core_(*shared, options.path);
    o = o + of_shared.o;
    if (options.want_final_state) mixed.final_state.tensors[kShared] = {of_shared.final_state};
  }
  if (!options.taps) return o;
  if (routed.beta.defined()) TapRoutedErase(routed, routing, shared, options);

  if (!result.final_state.defined()) {  // on its own: taps change no output
    routed.wants_final_state = true;
    result.final_state = run().final_state;
  }
  at::Tensor state = result.final_state.transpose(1, 2).flatten(2, 3);
  at::Tensor log_decay =
      OfStates(routed.written.defined() ? routed.written : routing.selected, routed.log_decay);
  if (shared) {
    const at::Tensor& g = shared->log_decay;
    state = at::cat({state, of_shared.final_state}, 2);
    log_decay = at::cat({log_decay, g.dim() == 3 ? g.unsqueeze(-1) : g}, 3);
  }
  options.taps.Record("log_decay", log_decay);
  TapState(options.taps, state);
  return o;
}

}  // namespace mixerbench::models
