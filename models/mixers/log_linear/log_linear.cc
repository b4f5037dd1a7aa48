// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/log_linear/log_linear.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>

#include "kernels/layout/columns.h"
#include "models/blocks/dtype.h"
#include "models/blocks/level_states.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::log_linear {
namespace {

constexpr char kConvolution[] = "conv";

const Fields<LogLinearConfig>& ConfigFields() {
  using Config = LogLinearConfig;
  static const auto fields =
      Fields<Config>()
          .Add("num_heads", &Config::num_heads, "heads")
          .Add("expand_v", &Config::expand_v, "value channels per channel of d_model")
          .Add("head_k_dim", &Config::head_k_dim, "channels of queries and keys")
          .Add("num_groups", &Config::num_groups,
               "heads of queries and keys, which divide num_heads")
          .Add("conv_size", &Config::conv_size,
               "width of a convolution with bias and silu on q, k, v; 0: silu alone")
          .Add("num_levels", &Config::num_levels,
               "levels, for 2^(num_levels-1) tokens; 0: for the longest input")
          .Add("bias", &Config::bias, "the first projection has a bias")
          .Add("norm_eps", &Config::norm_eps, "eps of the norm over all heads");
  return fields;
}

// One projection with bias of the output gate z, of q, k, v, which are convolved together, and of
// the step sizes and level weights.
class Projection {
 public:
  Projection(const MatrixLayout& layout, bool bias, const MixerContext& context,
             const ParameterScope& scope)
      : layout_(layout),
        in_proj_(scope.Child("in_proj"), context.d_model,
                 qkv_dim() + layout.gate_columns[0] + layout.value_dim(), bias) {
    if (layout.conv_size == 0) return;
    conv_.emplace(scope.Child("conv"), qkv_dim(), layout.conv_size, /*bias=*/true);
  }

  MatrixColumns operator()(const MixerInputs& inputs, const MixerOptions& options,
                           Mixed& mixed) const {
    const auto parts = in_proj_.Columns(
        inputs.x, {qkv_dim(), layout_.gate_columns[0], {layout_.value_dim(), /*only_scored=*/true}},
        options.scored, options.path);
    at::Tensor qkv = parts[0];
    if (conv_) {
      auto convolved =
          (*conv_)(qkv, Find(options.initial_state, kConvolution), options.path, {.silu = true});
      qkv = convolved.y;
      if (options.want_final_state) {
        mixed.final_state.tensors[kConvolution] = {convolved.history, StateKind::kConvolution};
      }
    } else {
      qkv = at::silu(qkv);
    }
    const auto split = kernels::SplitColumns(
        qkv, {layout_.key_dim(), layout_.key_dim(), layout_.value_dim()}, options.path);
    return {.q = split[0].unflatten(-1, {layout_.qk_heads, layout_.head_k_dim}),
            .k = split[1].unflatten(-1, {layout_.qk_heads, layout_.head_k_dim}),
            .v = split[2].unflatten(-1, {layout_.num_heads, layout_.head_v_dim}),
            .gates = {parts[1]},
            .output_gate = {parts[2], /*selected=*/options.scored != nullptr}};
  }

  void AddInitialState(std::int64_t batch_size, State& state) const {
    if (!conv_) return;
    state.tensors[kConvolution] = {conv_->InitialHistory(batch_size), StateKind::kConvolution};
  }

 private:
  std::int64_t qkv_dim() const { return 2 * layout_.key_dim() + layout_.value_dim(); }

  MatrixLayout layout_;
  Linear in_proj_;
  std::optional<ShortConvolution> conv_;
};

// One number a head.
struct Parameters {
  at::Tensor A_log, dt_bias, skip;
};

Parameters MakeParameters(std::int64_t num_heads, const ParameterScope& scope) {
  const at::Tensor dt = scope.Draw("dt_bias", {num_heads}, Init::LogUniform(1e-3, 0.1));
  return {.A_log = scope.AddSpecial(
              "A_log", at::arange(1, num_heads + 1, at::TensorOptions(at::kDouble)).log()),
          // Its softplus is dt.
          .dt_bias = scope.AddSpecial("dt_bias", dt + (-(-dt).expm1()).log()),
          .skip = scope.AddSpecial("D", {num_heads}, Init::Constant(1))};
}

MatrixLayout LayoutOfLevels(const LogLinearConfig& config, const std::string& where,
                            const MixerContext& context, std::int64_t num_levels) {
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  CheckRange(config.head_k_dim, 1, 4096, where, "head_k_dim");
  CheckRange(config.num_groups, 1, config.num_heads, where, "num_groups");
  layout.qk_heads = config.num_groups;
  if (layout.num_heads % layout.qk_heads != 0) {
    throw ConfigError(where + "/num_groups", std::to_string(config.num_groups) +
                                                 " does not divide num_heads " +
                                                 std::to_string(config.num_heads));
  }
  layout.head_k_dim = config.head_k_dim;
  layout.gate_columns = {layout.num_heads * (1 + num_levels)};
  layout.write_gate = WriteGate::kOwn;
  layout.output.norm = OutputNormKind::kAllHeads;
  layout.output.gate = OutputGate::kSilu;
  layout.output.gate_before_norm = true;
  layout.output.projection_role = ParameterRole::kResidualOutputWeight;
  return layout;
}

std::unique_ptr<Mixer> Make(const LogLinearConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const std::int64_t num_levels = NumLevels(config.num_levels, where, context);
  const MatrixLayout layout = LayoutOfLevels(config, where, context, num_levels);
  const auto projection = std::make_shared<const Projection>(layout, config.bias, context, scope);
  const Parameters parameters = MakeParameters(layout.num_heads, scope);
  const auto gates = [parameters, heads = layout.num_heads](const std::vector<at::Tensor>& columns,
                                                            const MixerOptions&,
                                                            kernels::RecurrenceArgs& args) {
    const auto parts =
        AtLeastFloat(columns[0]).split_with_sizes({heads, columns[0].size(-1) - heads}, -1);
    const auto delta = at::softplus(parts[0] + parameters.dt_bias);
    args.log_decay = delta * -at::exp(parameters.A_log);
    args.beta = at::cat({delta, parts[1]}, -1);
  };
  MatrixCore core = LevelStates(LevelRule::kDecay, num_levels, layout, scope);
  core.run = [run = core.run, skip = parameters.skip](const kernels::RecurrenceArgs& args,
                                                      const MixerOptions& options, Mixed& mixed) {
    return run(args, options, mixed) + skip.unsqueeze(-1).to(args.v.scalar_type()) * args.v;
  };
  return std::make_unique<MatrixStateMixer>(
      layout, gates, core, context, scope,
      MatrixProjection{
          .run = [projection](const MixerInputs& inputs, const MixerOptions& options,
                              Mixed& mixed) { return (*projection)(inputs, options, mixed); },
          .add_initial_state =
              [projection](std::int64_t batch_size, State& state) {
                projection->AddInitialState(batch_size, state);
                AddLevelPosition(state);
              }});
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "log-linear attention: a Mamba-2 whose past is split into levels with weights";
  entry.source = "arXiv 2506.04761";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_v", 2},
             {"head_k_dim", 6},
             {"num_groups", 2},
             {"conv_size", 0},
             {"num_levels", 10},
             {"bias", false},
             {"norm_eps", 1e-6}},
  };
  registry.Add("log_linear", std::move(entry));
}

}  // namespace mixerbench::models::log_linear
