// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/level_states.h"

#include <algorithm>
#include <bit>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/softplus.h>

#include "kernels/linear_attention/log_linear/log_linear.h"
#include "models/blocks/delta_rule_gates.h"
#include "models/blocks/erase_tap.h"
#include "models/blocks/write_strength.h"

namespace mixerbench::models {
namespace {

constexpr char kLevels[] = "levels";
constexpr char kPosition[] = "position";
constexpr std::int64_t kMaxLevels = 40;

StateTensor Position(std::int64_t position) {
  return {at::full({}, position, at::TensorOptions(at::kLong)), StateKind::kPosition};
}

// Levels for so many tokens.
std::int64_t LevelsFor(std::int64_t num_tokens) {
  const auto last = static_cast<std::uint64_t>(std::max<std::int64_t>(num_tokens, 1) - 1);
  return static_cast<std::int64_t>(std::bit_width(last)) + 1;
}

at::Tensor Run(LevelRule rule, const at::Tensor& level_scale, const kernels::RecurrenceArgs& args,
               const MixerOptions& options, Mixed& mixed) {
  const std::int64_t num_heads = args.v.size(2), num_levels = level_scale.size(1);
  at::Tensor gate = args.beta.narrow(-1, 0, num_heads);
  if (options.taps) gate = options.taps.WriteGate(gate);
  const at::Tensor level_weight =
      at::softplus(args.beta.narrow(-1, num_heads, num_heads * num_levels)
                       .unflatten(-1, {num_heads, num_levels}) *
                   level_scale);
  kernels::LogLinearArgs levels{
      .q = args.q,
      .k = args.k,
      .v = args.v,
      .level_weight = level_weight,
      .log_decay = args.log_decay,
      .initial_state = Find(options.initial_state, kLevels),
      .wants_final_state = options.want_final_state || static_cast<bool>(options.taps)};
  if (rule == LevelRule::kDelta) {
    levels.beta = gate;
  } else {
    levels.v = args.v * gate.unsqueeze(-1).to(args.v.scalar_type());
    levels.scale = 1;
  }
  if (options.initial_state != nullptr) {
    levels.position = Find(options.initial_state, kPosition).item<std::int64_t>();
  }
  const kernels::LogLinearResult result = kernels::LogLinear(levels, options.path);
  if (levels.beta.defined() && options.taps.Wants(kEraseTap)) {
    // Levels weigh what is read and nothing else: their sum is the state of one delta rule.
    kernels::RecurrenceArgs sum = args;
    sum.beta = gate;
    if (levels.initial_state.defined()) sum.initial_state = levels.initial_state.sum(2);
    options.taps.Record(kEraseTap, DeltaErasedNorm(sum, options.path));
  }
  if (options.taps) {
    options.taps.Record("level_weight", level_weight);
    TapState(options.taps, result.final_state.flatten(2, 3));
  }
  if (options.want_final_state) {
    mixed.final_state.tensors[kLevels] = {result.final_state};
    mixed.final_state.tensors[kPosition] = Position(levels.position + args.v.size(1));
  }
  return result.o;
}

}  // namespace

std::int64_t NumLevels(std::int64_t configured, const std::string& where,
                       const MixerContext& context) {
  const std::int64_t needed = LevelsFor(context.max_seq_len);
  if (configured == 0) return needed;
  CheckRange(configured, 1, kMaxLevels, where, "num_levels");
  if (configured < needed) {
    throw ConfigError(where + "/num_levels",
                      std::to_string(configured) + " levels hold " +
                          std::to_string(std::int64_t{1} << (configured - 1)) +
                          " tokens; inputs have up to " + std::to_string(context.max_seq_len));
  }
  return configured;
}

MatrixCore LevelStates(LevelRule rule, std::int64_t num_levels, const MatrixLayout& layout,
                       const ParameterScope& scope) {
  const at::Tensor level_scale =
      scope.AddSpecial("level_scale", {layout.num_heads, num_levels}, Init::Constant(1));
  return {
      .run = [=](const kernels::RecurrenceArgs& args, const MixerOptions& options,
                 Mixed& mixed) { return Run(rule, level_scale, args, options, mixed); },
      .states = {{kLevels, {layout.num_heads, num_levels, layout.head_k_dim, layout.head_v_dim}}}};
}

void AddLevelPosition(State& state) { state.tensors[kPosition] = Position(0); }

}  // namespace mixerbench::models
