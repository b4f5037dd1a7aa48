// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/state_expansion.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>

#include "kernels/layout/columns.h"
#include "models/blocks/write_strength.h"

namespace mixerbench::models {
namespace {

using kernels::RecurrenceArgs;

constexpr char kConvolution[] = "conv";
constexpr char kBalance[] = "balance";
constexpr double kBalanceWeight = 0.01;

// The scores as factors of what is written, where the write gate is what those of a token's written
// partitions add up to.
at::Tensor TapScores(const TapScope& taps, const Routing& written, std::int64_t num_heads) {
  const at::Tensor gate = (written.scores * written.selected).sum(-1, /*keepdim=*/true);
  const at::Tensor used = taps.WriteGate(gate.expand({-1, -1, num_heads})).narrow(-1, 0, 1);
  return taps.Overrides() ? written.scores * (used / gate) : written.scores;
}

}  // namespace

struct StateExpansion::Columns {
  at::Tensor q, k, gates, router;  // of the partitions
  at::Tensor shared_q, shared_k, shared_gates;
  at::Tensor v;  // [B,T,H,V]
  TokenTensor output_gate = {};
};

StateExpansion::StateExpansion(const StateExpansionLayout& layout, BranchFunction partitions,
                               BranchFunction shared, kernels::RecurrenceFunction core,
                               const MixerContext& context, const ParameterScope& scope)
    : layout_(layout),
      partitions_(std::move(partitions)),
      shared_(std::move(shared)),
      routed_({.num_states = layout.num_partitions,
               .has_shared = layout.has_shared,
               .num_heads = layout.num_heads,
               .head_k_dim = layout.head_k_dim,
               .head_v_dim = layout.head_v_dim,
               .form = layout.form},
              core, scope),
      in_proj_(scope.Child("in_proj"), context.d_model,
               2 * layout.key_dim() + layout.value_dim() + layout.num_partitions +
                   2 * layout.lora_rank + (layout.has_shared ? 2 : 1) * layout.gate_columns +
                   layout.output.gate_columns(layout.value_dim()),
               /*bias=*/false),
      lora_q_(scope.Child("lora_q"), layout.lora_rank, layout.key_dim(), /*bias=*/false),
      lora_k_(scope.Child("lora_k"), layout.lora_rank, layout.key_dim(), /*bias=*/false),
      output_(layout.output, layout.num_heads, layout.head_v_dim, context, scope) {
  if (layout.conv_size == 0) return;
  conv_.emplace(scope.Child("conv"), 2 * layout.key_dim(), layout.conv_size, /*bias=*/false);
}

MixerTraits StateExpansion::traits() const {
  return {
      .losses = {{kBalance, kBalanceWeight}}, .discrete = true, .output_dim = output_.output_dim()};
}

State StateExpansion::InitialState(std::int64_t batch_size) const {
  State state = routed_.InitialState(batch_size);
  if (conv_) {
    state.tensors[kConvolution] = {conv_->InitialHistory(batch_size), StateKind::kConvolution};
  }
  return state;
}

at::Tensor StateExpansion::Heads(const at::Tensor& x) const {
  return x.unflatten(-1, {layout_.qk_heads, layout_.head_k_dim});
}

StateExpansion::Columns StateExpansion::Project(const MixerInputs& inputs,
                                                const MixerOptions& options, Mixed& mixed) const {
  const std::int64_t key_dim = layout_.key_dim();
  const std::int64_t gate_width = layout_.output.gate_columns(layout_.value_dim());
  std::vector<kernels::ColumnBlock> blocks = {2 * key_dim,          layout_.value_dim(),
                                              layout_.gate_columns, layout_.num_partitions,
                                              layout_.lora_rank,    layout_.lora_rank};
  if (layout_.has_shared) blocks.emplace_back(layout_.gate_columns);
  if (gate_width > 0) blocks.emplace_back(gate_width, /*only_scored=*/true);
  const std::vector<at::Tensor> projected =
      in_proj_.Columns(inputs.x, blocks, options.scored, options.path);

  Columns columns;
  const auto halves = [&](const at::Tensor& qk) {
    return kernels::SplitColumns(qk, {key_dim, key_dim}, options.path);
  };
  const std::vector<at::Tensor> qk = halves(projected[0]);
  columns.q = Heads(qk[0] + lora_q_(projected[4], options.path));
  columns.k = Heads(qk[1] + lora_k_(projected[5], options.path));
  columns.v = at::silu(projected[1]).unflatten(-1, {layout_.num_heads, layout_.head_v_dim});
  columns.gates = projected[2];
  columns.router = projected[3];
  if (gate_width > 0) {
    columns.output_gate = {projected.back(), /*selected=*/options.scored != nullptr};
  }
  if (!layout_.has_shared) return columns;

  columns.shared_gates = projected[6];
  std::vector<at::Tensor> shared = qk;
  if (conv_) {
    const auto convolved =
        (*conv_)(projected[0], Find(options.initial_state, kConvolution), options.path);
    shared = halves(convolved.y);
    if (options.want_final_state) {
      mixed.final_state.tensors[kConvolution] = {convolved.history, StateKind::kConvolution};
    }
  }
  columns.shared_q = Heads(shared[0]);
  columns.shared_k = Heads(shared[1]);
  return columns;
}

RecurrenceArgs StateExpansion::Branch(const BranchFunction& function, const at::Tensor& gates,
                                      const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      const MixerOptions& options) const {
  RecurrenceArgs args{.q = q, .k = k, .v = v};
  function(gates, options, args);
  if (const std::int64_t times = layout_.num_heads / layout_.qk_heads; times > 1) {
    args.q = args.q.repeat_interleave(times, 2);
    args.k = args.k.repeat_interleave(times, 2);
  }
  return args;
}

Mixed StateExpansion::Mix(const MixerInputs& inputs, const MixerOptions& options) const {
  Mixed mixed;
  const Columns columns = Project(inputs, options, mixed);
  const Routing routing =
      RouteBySoftmax(columns.router, std::max(layout_.num_writers, layout_.num_readers));
  const Routing written = FirstChoices(routing, layout_.num_writers);
  const Routing read = FirstChoices(routing, layout_.num_readers);
  mixed.AddLoss(kBalance, BalanceLoss(written));

  RecurrenceArgs args =
      Branch(partitions_, columns.gates, columns.q, columns.k, columns.v, options);
  at::Tensor write = routing.scores;
  if (options.taps) {
    TapRouting(options.taps, written, routing.scores);
    options.taps.Record("router_reads", read.selected);
    if (args.beta.defined()) {
      args.beta = options.taps.WriteGate(args.beta);
    } else if (layout_.write == RouterWrite::kValue) {
      write = TapScores(options.taps, written, layout_.num_heads);
    } else {
      args.k = TapWriteStrength(options.taps, args.k, args.v);
    }
  }
  RoutedArgs routed{
      .q = args.q.unsqueeze(2),
      .k = args.k.unsqueeze(2),
      .v = args.v.unsqueeze(2),
      .log_decay = args.log_decay.unsqueeze(2),
      .read_weights = layout_.gates_reads ? routing.scores * read.selected : read.selected};
  if (layout_.num_writers < layout_.num_readers) routed.written = written.selected;
  if (args.beta.defined()) routed.beta = args.beta.unsqueeze(2);
  if (layout_.write == RouterWrite::kValue) routed.write_weights = write;
  if (layout_.write == RouterWrite::kBeta) routed.beta = routed.beta * write.unsqueeze(-1);

  std::optional<RecurrenceArgs> shared;
  if (layout_.has_shared) {
    shared = Branch(shared_, columns.shared_gates, columns.shared_q, columns.shared_k, columns.v,
                    options);
    if (options.taps && shared->beta.defined()) {
      shared->beta = options.taps.Child("shared").WriteGate(shared->beta);
    }
  }
  mixed.tokens = {{}, columns.output_gate};
  mixed.tokens[0] = {routed_.Run(routed, routing, shared, options, mixed)};
  return mixed;
}

at::Tensor StateExpansion::Output(const Mixed& mixed, const MixerOptions& options) const {
  return output_(mixed.tokens[0].value, mixed.tokens[1].value, /*added=*/{}, options.path);
}

}  // namespace mixerbench::models
