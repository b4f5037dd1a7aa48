// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mamba2/mamba2.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log_sigmoid.h>

#include "kernels/gates/head_scale.h"
#include "kernels/linear_attention/simple_gla/simple_gla.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/time_step.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::mamba2 {
namespace {

constexpr std::int64_t kDefaultHeadDim = 64;

const Fields<Mamba2Config>& ConfigFields() {
  using Config = Mamba2Config;
  static const auto fields =
      Fields<Config>()
          .Add("expand", &Config::expand, "channels per channel of d_model")
          .Add("d_state", &Config::d_state, "states of a channel")
          .Add("head_dim", &Config::head_dim,
               "channels of a head; 0: 64, or all channels where there are fewer")
          .Add("num_groups", &Config::num_groups, "of heads that share writes and reads")
          .Add("conv_size", &Config::conv_size,
               "width of the convolution with silu of x, B and C; 0: none")
          .Add("conv_bias", &Config::conv_bias, "bias of that convolution")
          .Add("A_min", &Config::A_min, "smallest decay rate at the start")
          .Add("A_max", &Config::A_max, "largest decay rate at the start")
          .Add("dt_min", &Config::dt_min, "smallest step at the start")
          .Add("dt_max", &Config::dt_max, "largest step at the start")
          .Add("dt_init_floor", &Config::dt_init_floor, "steps drawn below it start there")
          .Add("dt_limit_min", &Config::dt_limit_min, "lower bound of steps")
          .Add("dt_limit_max", &Config::dt_limit_max, "upper bound of steps; 0: none")
          .Add("learnable_init_states", &Config::learnable_init_states,
               "the state before the first token is a parameter")
          .Add("norm_before_gate", &Config::norm_before_gate, "false: the gate comes first")
          .Add("norm_eps", &Config::norm_eps, "eps of the norm of the output");
  return fields;
}

// Parameters of the recurrence, one of each per head.
struct Rates {
  Rates(const Mamba2Config& config, std::int64_t num_heads, const TimeStepRange& steps,
        const ParameterScope& scope)
      : A_log(scope.AddSpecial(
            "A_log",
            scope.Draw("A_log", {num_heads}, Init::Uniform(config.A_min, config.A_max)).log())),
        dt_bias(AddStepBias(scope, "dt_bias", num_heads, steps)),
        D(scope.AddSpecial("D", {num_heads}, Init::Constant(1))) {}

  at::Tensor A_log, dt_bias, D;
};

// step = softplus(logits + dt_bias) within bounds: log decay -e^A_log step, and step itself, by
// which what is written is multiplied, in the place of beta.
GateFunction MakeGates(const Rates& rates, const Mamba2Config& config) {
  std::optional<double> least, most;
  if (config.dt_limit_min > 0) least = config.dt_limit_min;
  if (config.dt_limit_max > 0) most = config.dt_limit_max;
  return [=](const std::vector<at::Tensor>& columns, const MixerOptions& options,
             kernels::RecurrenceArgs& args) {
    const at::Tensor logits = AtLeastFloat(columns[0]) + rates.dt_bias;
    at::Tensor step = -at::log_sigmoid(-logits);  // softplus
    if (least || most) step = at::clamp(step, least, most);
    args.log_decay = -at::exp(rates.A_log) * step;
    args.beta = options.taps ? options.taps.WriteGate(step) : step;
    args.scale = 1;
  };
}

// Scalar decay of what is written, step v, and the skip D v.
MatrixCore MakeCore(const Rates& rates, const MatrixLayout& layout, const at::Tensor& start) {
  MatrixCore core = OneState(kernels::SimpleGla, layout);
  core.run = [scan = core.run, D = rates.D, start](kernels::RecurrenceArgs args,
                                                   const MixerOptions& options, Mixed& mixed) {
    const at::Tensor v = args.v;
    args.v = kernels::ScaleHeads(v, args.beta, /*base=*/{}, options.path);
    args.beta = at::Tensor();
    MixerOptions from_start = options;
    State initial;
    if (start.defined() && options.initial_state == nullptr) {
      initial.tensors["state"] = {start.expand({v.size(0), -1, -1, -1})};
      from_start.initial_state = &initial;
    }
    return kernels::ScaleHeads(v, D, scan(std::move(args), from_start, mixed), options.path);
  };
  return core;
}

MatrixLayout LayoutOfConfig(const Mamba2Config& config, std::int64_t d_model,
                            const std::string& where) {
  CheckRange(config.expand, 1, 64, where, "expand");
  CheckRange(config.d_state, 1, 1024, where, "d_state");
  CheckRange(config.conv_size, 0, 64, where, "conv_size");
  CheckEps(config.norm_eps, where, "norm_eps");
  CheckPositive(config.A_min, where, "A_min");
  if (!(config.A_min <= config.A_max)) throw ConfigError(where + "/A_min", "is above A_max");
  if (!(config.dt_limit_min >= 0)) throw ConfigError(where + "/dt_limit_min", "must be >= 0");
  if (!(config.dt_limit_max == 0 || config.dt_limit_max >= config.dt_limit_min)) {
    throw ConfigError(where + "/dt_limit_max", "must be 0 or at least dt_limit_min");
  }
  const std::int64_t num_channels = config.expand * d_model;
  CheckRange(config.head_dim, 0, num_channels, where, "head_dim");
  MatrixLayout layout;
  layout.head_v_dim =
      config.head_dim > 0 ? config.head_dim : std::min(kDefaultHeadDim, num_channels);
  layout.num_heads =
      DivideExactly(num_channels, layout.head_v_dim, where, "head_dim", "the channels");
  DivideExactly(layout.num_heads, config.num_groups, where, "num_groups", "the heads");
  layout.qk_heads = config.num_groups;
  layout.head_k_dim = config.d_state;
  layout.conv_size = config.conv_size;
  layout.conv_bias = config.conv_bias;
  layout.silu = true;
  layout.gate_columns = {layout.num_heads};
  layout.write_gate = WriteGate::kOwn;
  layout.output.norm = OutputNormKind::kAllHeads;
  layout.output.norm_groups = config.num_groups;
  layout.output.gate = OutputGate::kSilu;
  layout.output.gate_before_norm = !config.norm_before_gate;
  layout.output.eps = config.norm_eps;
  layout.output.projection_role = ParameterRole::kResidualOutputWeight;
  return layout;
}

std::unique_ptr<Mixer> Make(const Mamba2Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const MatrixLayout layout = LayoutOfConfig(config, context.d_model, where);
  const Rates rates(config, layout.num_heads, TimeStepRangeOf(config, where), scope);
  at::Tensor start;
  MatrixProjection projection;
  if (config.learnable_init_states) {
    start = scope.AddSpecial(
        "init_states", {layout.num_heads, layout.head_k_dim, layout.head_v_dim}, Init::Constant(0));
    projection.add_initial_state = [start](std::int64_t batch_size, State& state) {
      state.tensors["state"] = {start.detach().expand({batch_size, -1, -1, -1}).clone()};
    };
  }
  return std::make_unique<MatrixStateMixer>(layout, MakeGates(rates, config),
                                            MakeCore(rates, layout, start), context, scope,
                                            std::move(projection));
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "Mamba-2: a matrix state per head that decays by one factor, with its own step";
  entry.source = "arXiv 2405.21060";
  entry.test_configs = {
      Object{{"expand", 1},
             {"d_state", 6},
             {"head_dim", 4},
             {"num_groups", 2},
             {"conv_size", 3},
             {"conv_bias", false},
             {"A_min", 0.5},
             {"A_max", 2},
             {"dt_min", 0.01},
             {"dt_max", 1},
             {"dt_init_floor", 0.02},
             {"dt_limit_min", 0.015},
             {"dt_limit_max", 0.5},
             {"learnable_init_states", true},
             {"norm_before_gate", true},
             {"norm_eps", 1e-6}},
      Object{{"head_dim", 8}, {"num_groups", 2}, {"conv_size", 0}},
  };
  registry.Add("mamba2", std::move(entry));
}

}  // namespace mixerbench::models::mamba2
