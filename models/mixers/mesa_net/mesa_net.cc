// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mesa_net/mesa_net.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>

#include "kernels/gates/gates.h"
#include "kernels/layout/columns.h"
#include "kernels/linear_attention/mesa/mesa.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::mesa_net {
namespace {

constexpr char kGram[] = "gram";
constexpr char kState[] = "state";
constexpr char kConvolution[] = "conv";

const Fields<MesaNetConfig>& ConfigFields() {
  using Config = MesaNetConfig;
  static const auto fields =
      MatrixFields<Config>("width of a convolution with silu on q and k; 0: silu alone")
          .Add("expand_v", &Config::expand_v, "value channels per channel of d_model")
          .Add("num_iterations", &Config::num_iterations,
               "conjugate gradients for each token; head_k_dim of them are exact")
          .Add("min_ridge", &Config::min_ridge, "lambda at least; it starts at 1");
  return fields;
}

// Queries and keys are convolved and normalised, values are not; the gates have biases.
class Projection {
 public:
  Projection(const MatrixLayout& layout, const MixerContext& context, const ParameterScope& scope)
      : layout_(layout),
        in_proj_(scope.Child("in_proj"), context.d_model,
                 2 * layout.key_dim() + layout.value_dim() + 2 * layout.num_heads +
                     layout.output.gate_columns(layout.value_dim()),
                 /*bias=*/false) {
    if (layout.conv_size == 0) return;
    conv_.emplace(scope.Child("conv"), 2 * layout.key_dim(), layout.conv_size, /*bias=*/false);
  }

  MatrixColumns operator()(const MixerInputs& inputs, const MixerOptions& options,
                           Mixed& mixed) const {
    const std::int64_t gate_columns = layout_.output.gate_columns(layout_.value_dim());
    std::vector<kernels::ColumnBlock> blocks = {2 * layout_.key_dim(), layout_.value_dim(),
                                                2 * layout_.num_heads};
    if (gate_columns > 0) blocks.emplace_back(gate_columns, /*only_scored=*/true);
    const auto parts = in_proj_.Columns(inputs.x, blocks, options.scored, options.path);
    at::Tensor qk = parts[0];
    if (conv_) {
      auto convolved = (*conv_)(
          qk, Find(options.initial_state, kConvolution), options.path,
          {.silu = true, .norm_channels = 2 * layout_.key_dim(), .norm_dim = layout_.head_k_dim});
      qk = convolved.y;
      if (options.want_final_state) {
        mixed.final_state.tensors[kConvolution] = {convolved.history, StateKind::kConvolution};
      }
    } else {
      qk = at::silu(qk);
    }
    const auto both =
        kernels::SplitColumns(qk, {layout_.key_dim(), layout_.key_dim()}, options.path);
    const auto heads = [&](const at::Tensor& x, std::int64_t head_dim) {
      return x.unflatten(-1, {layout_.num_heads, head_dim});
    };
    MatrixColumns columns{.q = heads(both[0], layout_.head_k_dim),
                          .k = heads(both[1], layout_.head_k_dim),
                          .v = heads(parts[1], layout_.head_v_dim),
                          .gates = {parts[2]}};
    if (!conv_) {
      columns.q = L2Norm(columns.q);
      columns.k = L2Norm(columns.k);
    }
    if (gate_columns > 0) columns.output_gate = {parts[3], /*selected=*/options.scored != nullptr};
    return columns;
  }

  void AddInitialState(std::int64_t batch_size, State& state) const {
    if (!conv_) return;
    state.tensors[kConvolution] = {conv_->InitialHistory(batch_size), StateKind::kConvolution};
  }

 private:
  MatrixLayout layout_;
  Linear in_proj_;
  std::optional<ShortConvolution> conv_;
};

// [H,K] whose softplus is 1 - min_ridge, so that lambda starts at 1.
at::Tensor MakeRidge(const MatrixLayout& layout, double min_ridge, const ParameterScope& scope) {
  return scope.AddSpecial("ridge", {layout.num_heads, layout.head_k_dim},
                          Init::Constant(std::log(std::expm1(1 - min_ridge))));
}

std::unique_ptr<Mixer> Make(const MesaNetConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_iterations, 1, 4096, where, "num_iterations");
  if (!(config.min_ridge > 0 && config.min_ridge < 1)) {
    throw ConfigError(where + "/min_ridge",
                      std::to_string(config.min_ridge) + " is not between 0 and 1");
  }
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  layout.write_gate = WriteGate::kBeta;
  const auto projection = std::make_shared<const Projection>(layout, context, scope);
  const at::Tensor gate_bias = scope.Add("gate_bias", {2 * layout.num_heads},
                                         ParameterRole::kLinearBias, FanInUniform(context.d_model));
  const auto gates = [gate_bias](const std::vector<at::Tensor>& columns,
                                 const MixerOptions& options, kernels::RecurrenceArgs& args) {
    const auto logits = (AtLeastFloat(columns[0]) + gate_bias).chunk(2, -1);
    args.beta = at::sigmoid(logits[0]);
    args.log_decay =
        kernels::LogSigmoidDecay(logits[1], /*temperature=*/1, /*floor=*/0, options.path);
  };
  const at::Tensor ridge = MakeRidge(layout, config.min_ridge, scope);
  const auto run = [config, ridge](const kernels::RecurrenceArgs& args, const MixerOptions& options,
                                   Mixed& mixed) {
    const kernels::MesaResult result =
        kernels::Mesa({.q = args.q,
                       .k = args.k,
                       .v = args.v,
                       .beta = args.beta,
                       .ridge = at::softplus(ridge) + config.min_ridge,
                       .log_decay = args.log_decay,
                       .initial_gram = Find(options.initial_state, kGram),
                       .initial_state = Find(options.initial_state, kState),
                       .num_iterations = config.num_iterations,
                       .wants_residual = options.taps.Wants("residual"),
                       .scale = 1},
                      options.path);
    if (options.taps) {
      if (result.residual.defined()) options.taps.Record("residual", result.residual);
      TapState(options.taps, result.final_state);
    }
    if (options.want_final_state) {
      mixed.final_state.tensors[kGram] = {result.final_gram};
      mixed.final_state.tensors[kState] = {result.final_state};
    }
    return result.o;
  };
  const MatrixCore core = {run,
                           {{kGram, {layout.num_heads, layout.head_k_dim, layout.head_k_dim}},
                            {kState, {layout.num_heads, layout.head_k_dim, layout.head_v_dim}}}};
  return std::make_unique<MatrixStateMixer>(layout, gates, core, context, scope,
                                            ProjectionOf(projection));
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "MesaNet: every token solves the least squares of what was seen";
  entry.source = "arXiv 2506.05233";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"conv_size", 0},
             {"num_iterations", 8},
             {"min_ridge", 0.5},
             {"use_output_gate", true},
             {"norm_eps", 1e-6}},
  };
  registry.Add("mesa_net", std::move(entry));
}

}  // namespace mixerbench::models::mesa_net
