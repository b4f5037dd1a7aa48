// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/matrix_state_mixer.h"

#include <numeric>

#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "kernels/fused/columns.h"
#include "kernels/fused/rotary.h"
#include "models/blocks/dtype.h"
#include "models/blocks/write_strength.h"

namespace mixerbench::models {
namespace {

constexpr char kState[] = "state";
constexpr char kConvolution[] = "conv";

std::int64_t InProjectionRows(const MatrixLayout& layout) {
  const std::int64_t gates =
      std::accumulate(layout.gate_columns.begin(), layout.gate_columns.end(), std::int64_t{0});
  return 2 * layout.key_dim() + layout.value_dim() + gates +
         (layout.output.gate != OutputGate::kNone ? layout.value_dim() : 0);
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
                                   const MixerContext& context, const ParameterScope& scope)
    : layout_(layout),
      gates_(std::move(gates)),
      core_(std::move(core)),
      in_proj_(scope.Child("in_proj"), context.d_model, InProjectionRows(layout), /*bias=*/false),
      output_(layout.output, layout.num_heads, layout.head_v_dim, context, scope) {
  Require(layout.num_heads % layout.qk_heads == 0, "heads of queries and keys divide the others");
  if (layout.conv_size > 0) {
    conv_.emplace(scope.Child("conv"), 2 * layout.key_dim() + layout.value_dim(), layout.conv_size,
                  /*bias=*/false);
  }
}

MixerTraits MatrixStateMixer::traits() const { return {.output_dim = output_.output_dim()}; }

State MatrixStateMixer::InitialState(std::int64_t batch_size) const {
  State state;
  const auto floats = AtLeastFloat(in_proj_.weight()).options().requires_grad(false);
  for (const auto& [name, shape] : core_.states) {
    std::vector<std::int64_t> sizes = {batch_size};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    state.tensors[name] = {at::zeros(sizes, floats)};
  }
  if (conv_) {
    state.tensors[kConvolution] = {conv_->InitialHistory(batch_size), StateKind::kConvolution};
  }
  return state;
}

kernels::RecurrenceArgs MatrixStateMixer::SplitHeads(const at::Tensor& qkv,
                                                     ExecutionPath path) const {
  const std::int64_t key_dim = layout_.key_dim();
  const auto of_keys = [&](const at::Tensor& x) {
    return x.unflatten(-1, {layout_.qk_heads, layout_.head_k_dim});
  };
  kernels::RecurrenceArgs args;
  std::vector<at::Tensor> parts;
  if (layout_.rotary) {  // queries and keys turn alike
    parts = kernels::fused::SplitColumns(qkv, {2 * key_dim, layout_.value_dim()}, path);
    const at::Tensor turned =
        kernels::fused::RotateHalf(parts[0].unflatten(-1, {-1, layout_.head_k_dim}),
                                   /*first_position=*/0, layout_.head_k_dim, path);
    const auto both = kernels::fused::SplitColumns(turned.flatten(2), {key_dim, key_dim}, path);
    args.q = of_keys(both[0]);
    args.k = of_keys(both[1]);
  } else {
    parts = kernels::fused::SplitColumns(qkv, {key_dim, key_dim, layout_.value_dim()}, path);
    args.q = of_keys(parts[0]);
    args.k = of_keys(parts[1]);
  }
  args.v = parts.back().unflatten(-1, {layout_.num_heads, layout_.head_v_dim});
  return args;
}

Mixed MatrixStateMixer::Mix(const MixerInputs& inputs, const MixerOptions& options) const {
  Mixed mixed;
  std::vector<kernels::fused::ColumnBlock> blocks = {2 * layout_.key_dim() + layout_.value_dim()};
  for (const std::int64_t width : layout_.gate_columns) blocks.emplace_back(width);
  if (HasGate()) blocks.emplace_back(layout_.value_dim(), /*only_at_rows=*/true);
  std::vector<at::Tensor> columns = in_proj_.Columns(inputs.x, blocks, options.rows, options.path);

  TokenTensor output_gate;
  if (HasGate()) {
    output_gate = {columns.back(), /*selected=*/options.rows != nullptr};
    columns.pop_back();
  }
  at::Tensor qkv = columns.front();
  columns.erase(columns.begin());
  const bool norm_in_convolution = conv_ && layout_.silu && layout_.l2_norm;
  if (conv_) {
    auto convolved = (*conv_)(qkv, Find(options.initial_state, kConvolution), options.path,
                              {.silu = layout_.silu,
                               .norm_channels = norm_in_convolution ? 2 * layout_.key_dim() : 0,
                               .norm_dim = layout_.head_k_dim});
    qkv = convolved.y;
    if (options.want_final_state) {
      mixed.final_state.tensors[kConvolution] = {convolved.history, StateKind::kConvolution};
    }
  } else if (layout_.silu) {
    qkv = at::silu(qkv);
  }

  kernels::RecurrenceArgs args = SplitHeads(qkv, options.path);
  if (layout_.l2_norm && !norm_in_convolution) {
    args.q = L2Norm(args.q);
    args.k = L2Norm(args.k);
  }
  gates_(columns, options, args);
  if (const std::int64_t times = layout_.num_heads / layout_.qk_heads; times > 1) {
    args.q = args.q.repeat_interleave(times, 2);
    args.k = args.k.repeat_interleave(times, 2);
  }
  if (options.taps) TapGates(layout_.write_gate, options.taps, args);
  mixed.tokens = {{core_.run(std::move(args), options, mixed)}, output_gate};
  return mixed;
}

at::Tensor MatrixStateMixer::Output(const Mixed& mixed, const MixerOptions& options) const {
  return output_(mixed.tokens[0].value, mixed.tokens[1].value, options.path);
}

}  // namespace mixerbench::models
