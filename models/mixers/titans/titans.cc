// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/titans/titans.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/titans/titans.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::titans {
namespace {

constexpr char kMemory[] = "memory";
constexpr char kMomentum[] = "momentum";

// The tokens of an unfinished chunk.
struct Unfinished {
  const char* name;
  at::Tensor kernels::TitansState::*field;
};
constexpr Unfinished kUnfinished[] = {
    {"unfinished_k", &kernels::TitansState::k},
    {"unfinished_v", &kernels::TitansState::v},
    {"unfinished_log_decay", &kernels::TitansState::log_decay},
    {"unfinished_log_momentum", &kernels::TitansState::log_momentum},
    {"unfinished_step", &kernels::TitansState::step}};

const Fields<TitansConfig>& ConfigFields() {
  using Config = TitansConfig;
  static const auto fields =
      MatrixFields<Config>(kConvBeforeSilu)
          .Add("expand_v", &Config::expand_v, "value channels per channel of d_model")
          .Add("mini_batch_size", &Config::mini_batch_size,
               "tokens whose gradients are taken at the same memory")
          .Add("max_step", &Config::max_step, "largest step of the gradient descent")
          .Add("forget_bias", &Config::forget_bias, "where the logit of forgetting starts")
          .Add("learn_initial_memory", &Config::learn_initial_memory,
               "the memory before the first token is a parameter, starting at zero");
  return fields;
}

struct Parameters {
  at::Tensor gate_bias;       // [3H]: of alpha, eta, theta
  at::Tensor initial_memory;  // [H,K,V]; undefined without
};

kernels::TitansState StateOf(const State* state, const Parameters& parameters,
                             std::int64_t batch_size) {
  kernels::TitansState result{.memory = Find(state, kMemory), .momentum = Find(state, kMomentum)};
  if (!result.memory.defined() && parameters.initial_memory.defined()) {
    result.memory = parameters.initial_memory.expand({batch_size, -1, -1, -1});
    result.momentum = at::zeros_like(result.memory).detach();
  }
  for (const auto& [name, field] : kUnfinished) result.*field = Find(state, name);
  return result;
}

void PutState(const kernels::TitansState& from, State& state) {
  state.tensors[kMemory] = {from.memory};
  state.tensors[kMomentum] = {from.momentum};
  for (const auto& [name, field] : kUnfinished) {
    state.tensors[name] = {from.*field, StateKind::kPartial};
  }
}

// The gate function leaves the logits [B,T,3H] in args.beta: alpha, eta, theta.
at::Tensor Run(const TitansConfig& config, const Parameters& parameters,
               const kernels::RecurrenceArgs& args, const MixerOptions& options, Mixed& mixed) {
  const auto logits = args.beta.chunk(3, -1);
  kernels::TitansArgs titans{
      .q = args.q,
      .k = args.k,
      .v = args.v,
      .step = at::sigmoid(logits[2]) * config.max_step,
      .log_decay = at::log_sigmoid(-logits[0]),
      .log_momentum = at::log_sigmoid(logits[1]),
      .initial_state = StateOf(options.initial_state, parameters, args.q.size(0)),
      .mini_batch_size = config.mini_batch_size};
  if (options.taps) {
    titans.step = options.taps.WriteGate(titans.step);
    options.taps.Record("log_decay", titans.log_decay);
    options.taps.Record("log_momentum", titans.log_momentum);
  }
  const kernels::TitansResult result = kernels::Titans(titans, options.path);
  if (options.taps) {
    options.taps.Record("surprise", result.surprise);
    TapState(options.taps, result.final_state.memory);
  }
  if (options.want_final_state) PutState(result.final_state, mixed.final_state);
  return result.o;
}

// What MatrixCore::states does not say: the tokens of a chunk that starts, and a learned memory.
void AddInitialState(const MatrixLayout& layout, const Parameters& parameters,
                     std::int64_t batch_size, State& state) {
  if (parameters.initial_memory.defined()) {
    state.tensors[kMemory].value =
        parameters.initial_memory.detach().expand({batch_size, -1, -1, -1}).contiguous();
  }
  const auto options = state.tensors[kMomentum].value.options();
  for (const auto& [name, field] : kUnfinished) {
    std::vector<std::int64_t> sizes = {batch_size, 0, layout.num_heads};
    if (field == &kernels::TitansState::k) sizes.push_back(layout.head_k_dim);
    if (field == &kernels::TitansState::v) sizes.push_back(layout.head_v_dim);
    state.tensors[name] = {at::zeros(sizes, options), StateKind::kPartial};
  }
}

std::unique_ptr<Mixer> Make(const TitansConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.mini_batch_size, 1, 4096, where, "mini_batch_size");
  CheckPositive(config.max_step, where, "max_step");
  if (!std::isfinite(config.forget_bias)) {
    throw ConfigError(where + "/forget_bias", "must be a number");
  }
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  layout.silu = true;
  layout.l2_norm = true;
  layout.write_gate = WriteGate::kOwn;
  layout.gate_columns = {3 * layout.num_heads};
  Parameters parameters;
  at::Tensor bias = at::zeros({3 * layout.num_heads}, at::kDouble);
  bias.narrow(0, 0, layout.num_heads).fill_(config.forget_bias);
  parameters.gate_bias = scope.AddSpecial("gate_bias", bias);
  if (config.learn_initial_memory) {
    parameters.initial_memory =
        scope.AddSpecial("initial_memory", {layout.num_heads, layout.head_k_dim, layout.head_v_dim},
                         Init::Constant(0));
  }
  const auto gates = [bias = parameters.gate_bias](const std::vector<at::Tensor>& columns,
                                                   const MixerOptions&,
                                                   kernels::RecurrenceArgs& args) {
    args.beta = AtLeastFloat(columns[0]) + bias;
  };
  const std::vector<std::int64_t> shape = {layout.num_heads, layout.head_k_dim, layout.head_v_dim};
  const MatrixCore core = {
      [config, parameters](const kernels::RecurrenceArgs& args, const MixerOptions& options,
                           Mixed& mixed) { return Run(config, parameters, args, options, mixed); },
      {{kMemory, shape}, {kMomentum, shape}}};
  MatrixProjection projection;
  projection.add_initial_state = [layout, parameters](std::int64_t batch_size, State& state) {
    AddInitialState(layout, parameters, batch_size, state);
  };
  return std::make_unique<MatrixStateMixer>(layout, gates, core, context, scope,
                                            std::move(projection));
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "Titans: a linear memory trained on the sequence, with momentum and forgetting";
  entry.source = "arXiv 2501.00663";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"conv_size", 0},
             {"mini_batch_size", 5},
             {"max_step", 0.5},
             {"forget_bias", -1},
             {"learn_initial_memory", true},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"mini_batch_size", 1}, {"output_gate", "sigmoid"}},
  };
  registry.Add("titans", std::move(entry));
}

}  // namespace mixerbench::models::titans
