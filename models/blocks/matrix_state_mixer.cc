// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/matrix_state_mixer.h"

#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "kernels/layout/columns.h"
#include "kernels/rope/rotary.h"
#include "models/blocks/write_strength.h"

namespace mixerbench::models {
namespace {

constexpr char kState[] = "state";
constexpr char kConvolution[] = "conv";

std::optional<Linear> InProjection(const MatrixLayout& layout, bool has_own,
                                   const MixerContext& context, const ParameterScope& scope) {
  if (has_own) return std::nullopt;
  const std::int64_t writes = layout.writes_per_token;
  std::vector<LinearRows> layers = {{layout.query_dim(), layout.init},
                                    {writes * layout.key_dim(), layout.init},
                                    {writes * layout.value_dim(), layout.init}};
  for (const std::int64_t width : layout.gate_columns) layers.push_back({width, layout.init});
  layers.push_back({OutputGateColumns(layout), layout.init});
  return Linear(scope.Child("in_proj"), context.d_model, layers);
}

std::optional<ShortConvolution> Convolution(const MatrixLayout& layout, bool has_own,
                                            const ParameterScope& scope) {
  if (has_own || layout.conv_size == 0) return std::nullopt;
  return ShortConvolution(scope.Child("conv"), layout.qkv_dim(), layout.conv_size,
                          layout.conv_bias);
}

// x [B,T,G,K] for `times` heads of each group, [B,T,G times,K]: of one group the same memory.
at::Tensor SharedByHeads(const at::Tensor& x, std::int64_t times) {
  return x.unsqueeze(3).expand({-1, -1, -1, times, -1}).flatten(2, 3);
}

// Applies overrides of the write gate and records what the gates are.
void TapGates(WriteGate write_gate, const TapScope& taps, kernels::RecurrenceArgs& args) {
  switch (write_gate) {
    case WriteGate::kKeyNorm:
      args.k = TapWriteStrength(taps, args.k, args.v);
      break;
    case WriteGate::kBeta:
      args.beta = taps.WriteGate(args.beta);
      break;
    case WriteGate::kOwn:
      break;
  }
  if (args.log_decay.defined()) taps.Record("log_decay", args.log_decay);
}

}  // namespace

MatrixCore OneState(kernels::RecurrenceFunction core, const MatrixLayout& layout) {
  const auto run = [core](kernels::RecurrenceArgs args, const MixerOptions& options, Mixed& mixed) {
    args.initial_state = Find(options.initial_state, kState);
    args.wants_final_state = options.want_final_state || options.taps;
    kernels::RecurrenceResult result = core(args, options.path);
    if (options.taps) TapState(options.taps, result.final_state);
    if (options.want_final_state) mixed.final_state.tensors[kState] = {result.final_state};
    return result.o;
  };
  return {run, {{kState, {layout.num_heads, layout.head_k_dim, layout.head_v_dim}}}};
}

MatrixStateMixer::MatrixStateMixer(const MatrixLayout& layout, GateFunction gates, MatrixCore core,
                                   const MixerContext& context, const ParameterScope& scope,
                                   MatrixProjection projection)
    : layout_(layout),
      projection_(std::move(projection)),
      gates_(std::move(gates)),
      core_(std::move(core)),
      traits_(projection_.traits),
      state_options_(scope.special_options()),
      in_proj_(InProjection(layout, HasProjection(), context, scope)),
      conv_(Convolution(layout, HasProjection(), scope)),
      output_(layout.output, layout.output_heads(), layout.head_v_dim, context, scope) {
  Require(layout.head_k_dim > 0 && layout.head_v_dim > 0,
          "heads have keys and values: by the options expand_k and expand_v, or set by the mixer");
  Require(layout.num_heads % layout.qk_heads == 0, "heads of queries and keys divide the others");
  Require(layout.queries_per_key == 1 || layout.qk_heads == layout.num_heads,
          "either queries are grouped or values");
  Require(layout.writes_per_token == 1 || !layout.rotary, "queries and keys turn in pairs");
  traits_.output_dim = output_.output_dim();
}

void MatrixStateMixer::SetFilter(CoreFilter filter, const MixerTraits& traits) {
  Require(!filter_, "a mixer has one filter");
  filter_ = std::move(filter);
  traits_.losses.insert(traits.losses.begin(), traits.losses.end());
  traits_.discrete = traits_.discrete || traits.discrete;
}

MixerTraits MatrixStateMixer::traits() const { return traits_; }

State MatrixStateMixer::InitialState(std::int64_t batch_size) const {
  State state;
  for (const auto& [name, shape] : core_.states) {
    std::vector<std::int64_t> sizes = {batch_size};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    state.tensors[name] = {at::zeros(sizes, state_options_)};
  }
  if (conv_) {
    state.tensors[kConvolution] = {conv_->InitialHistory(batch_size), StateKind::kConvolution};
  }
  if (projection_.add_initial_state) projection_.add_initial_state(batch_size, state);
  return state;
}

void MatrixStateMixer::SplitHeads(const at::Tensor& qkv, ExecutionPath path,
                                  MatrixColumns& columns) const {
  const std::int64_t key_dim = layout_.key_dim(), query_dim = layout_.query_dim();
  const auto of_keys = [&](const at::Tensor& x) {
    return x.unflatten(-1, {-1, layout_.head_k_dim});
  };
  std::vector<at::Tensor> parts;
  if (layout_.rotary) {  // queries and keys turn alike
    parts = kernels::SplitColumns(qkv, {query_dim + key_dim, layout_.value_dim()}, path);
    const at::Tensor turned = kernels::RotateHalf(parts[0].unflatten(-1, {-1, layout_.head_k_dim}),
                                                  /*first_position=*/0, layout_.head_k_dim, path);
    const auto both = kernels::SplitColumns(turned.flatten(2), {query_dim, key_dim}, path);
    columns.q = of_keys(both[0]);
    columns.k = of_keys(both[1]);
  } else {
    const std::int64_t writes = layout_.writes_per_token;
    parts = kernels::SplitColumns(qkv, {query_dim, writes * key_dim, writes * layout_.value_dim()},
                                  path);
    columns.q = of_keys(parts[0]);
    columns.k = of_keys(parts[1]);
  }
  columns.v = parts.back().unflatten(-1, {-1, layout_.head_v_dim});
}

MatrixColumns MatrixStateMixer::Project(const MixerInputs& inputs, const MixerOptions& options,
                                        Mixed& mixed) const {
  MatrixColumns columns;
  std::vector<kernels::ColumnBlock> blocks = {layout_.qkv_dim()};
  for (const std::int64_t width : layout_.gate_columns) blocks.emplace_back(width);
  if (gate_columns() > 0) blocks.emplace_back(gate_columns(), /*only_scored=*/true);
  columns.gates = in_proj_->Columns(inputs.x, blocks, options.scored, options.path);
  if (gate_columns() > 0) {
    columns.output_gate = {columns.gates.back(), /*selected=*/options.scored != nullptr};
    columns.gates.pop_back();
  }
  at::Tensor qkv = columns.gates.front();
  columns.gates.erase(columns.gates.begin());

  const std::int64_t norm_channels =
      layout_.query_dim() + layout_.writes_per_token * layout_.key_dim();
  const bool norm_in_convolution = conv_ && layout_.silu && layout_.l2_norm;
  if (conv_) {
    auto convolved = (*conv_)(qkv, Find(options.initial_state, kConvolution), options.path,
                              {.silu = layout_.silu,
                               .norm_channels = norm_in_convolution ? norm_channels : 0,
                               .norm_dim = layout_.head_k_dim});
    qkv = convolved.y;
    if (options.want_final_state) {
      mixed.final_state.tensors[kConvolution] = {convolved.history, StateKind::kConvolution};
    }
  } else if (layout_.silu) {
    qkv = at::silu(qkv);
  }
  SplitHeads(qkv, options.path, columns);
  if (layout_.l2_norm && !norm_in_convolution) {
    columns.q = L2Norm(columns.q);
    columns.k = L2Norm(columns.k);
  }
  return columns;
}

Mixed MatrixStateMixer::Mix(const MixerInputs& inputs, const MixerOptions& options) const {
  Mixed mixed;
  const MatrixColumns columns =
      HasProjection() ? projection_.run(inputs, options, mixed) : Project(inputs, options, mixed);
  kernels::RecurrenceArgs args;
  args.q = columns.q;
  args.k = columns.k;
  args.v = columns.v;
  gates_(columns.gates, options, args);
  if (const std::int64_t times = layout_.num_heads / layout_.qk_heads; times > 1) {
    args.q = SharedByHeads(args.q, times);
    args.k = SharedByHeads(args.k, times);
  }
  if (filter_) filter_(args, core_.has_slots, options, mixed);
  if (options.taps) TapGates(layout_.write_gate, options.taps, args);
  mixed.tokens = {{}, columns.output_gate};
  mixed.tokens[0] = {core_.run(std::move(args), options, mixed)};
  return mixed;
}

at::Tensor MatrixStateMixer::Output(const Mixed& mixed, const MixerOptions& options) const {
  const at::Tensor added = mixed.tokens.size() > 2 ? mixed.tokens[2].value : at::Tensor();
  return output_(mixed.tokens[0].value, mixed.tokens[1].value, added, options.path);
}

}  // namespace mixerbench::models
