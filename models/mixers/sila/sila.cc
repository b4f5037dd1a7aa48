// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/sila/sila.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/where.h>

#include "kernels/linear_attention/sila/sila.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::sila {
namespace {

constexpr char kState[] = "state";

const Fields<SilaConfig>& ConfigFields() {
  using Config = SilaConfig;
  static const auto fields =
      MatrixFields<Config>(kConvBeforeSilu)
          .Add("expand_v", &Config::expand_v, "value channels per channel of d_model")
          .Add("memory_gates", &Config::memory_gates,
               "write and forget gates depend on what the memory recalls")
          .Add("cross_head", &Config::cross_head, "... in all heads, not in their own alone")
          .Add("memory_init_std", &Config::memory_init_std,
               "standard deviation of the weights of what is recalled; 0: zeros")
          .Add("gate_bias", &Config::gate_bias, "the logits of the gates have a bias")
          .Add("decayed_erase", &Config::decayed_erase,
               "erase what is recalled after the decay, as a gated delta rule")
          .Add("learn_initial_memory", &Config::learn_initial_memory,
               "the state before the first token is a parameter, starting at zero");
  return fields;
}

struct Parameters {
  at::Tensor write_memory, forget_memory;  // undefined without memory_gates
  at::Tensor gate_bias;                    // [3H]; undefined without
  at::Tensor initial_memory;               // [H,K,V]; undefined without
};

Parameters MakeParameters(const SilaConfig& config, const MatrixLayout& layout,
                          const ParameterScope& scope) {
  Parameters parameters;
  if (config.memory_gates) {
    std::vector<std::int64_t> shape = {layout.num_heads, layout.head_v_dim};
    if (config.cross_head) shape.insert(shape.begin(), layout.num_heads);
    const Init init = Init::Normal(config.memory_init_std);
    parameters.write_memory = scope.AddSpecial("write_memory", shape, init);
    parameters.forget_memory = scope.AddSpecial("forget_memory", shape, init);
  }
  if (config.gate_bias) {
    parameters.gate_bias = scope.AddSpecial("gate_bias", {3 * layout.num_heads}, Init::Constant(0));
  }
  if (config.learn_initial_memory) {
    parameters.initial_memory =
        scope.AddSpecial("initial_memory", {layout.num_heads, layout.head_k_dim, layout.head_v_dim},
                         Init::Constant(0));
  }
  return parameters;
}

// The write gates of a first pass with their means at the positions to override, NaN elsewhere:
// what the gates of later tokens see depends on these.
at::Tensor ForcedWriteGates(const TapScope& taps, kernels::SilaArgs args, ExecutionPath path) {
  const at::NoGradGuard no_grad;
  args.wants_gates = true;
  const at::Tensor gates = kernels::Sila(args, path).write_gate;
  const at::Tensor overridden = taps.Overridden(gates);
  return at::where(overridden == gates, std::numeric_limits<double>::quiet_NaN(), overridden);
}

void Tap(const TapScope& taps, const kernels::SilaResult& result, const at::Tensor& v,
         const at::Tensor& alpha) {
  taps.Record("write_gate", result.write_gate);
  taps.Record("log_decay", result.log_decay);
  taps.Record("alpha", alpha);
  taps.Record("recalled", result.recalled);
  if (taps.Wants("surprise")) {
    taps.Record("surprise",
                at::linalg_vector_norm(AtLeastFloat(v.detach()) - result.recalled, 2, {-1}));
  }
  if (taps.Wants("ignored")) {
    const double almost_kept = std::log(0.99);
    taps.Record("ignored",
                result.write_gate.lt(0.05).logical_and(result.log_decay.gt(almost_kept)));
  }
  TapState(taps, result.final_state);
}

// The gate function leaves the logits [B,T,3H] in args.beta: write, forget, bonus.
at::Tensor Run(const Parameters& parameters, bool decayed_erase,
               const kernels::RecurrenceArgs& args, const MixerOptions& options, Mixed& mixed) {
  const auto logits = args.beta.chunk(3, -1);
  kernels::SilaArgs sila{.q = args.q,
                         .k = args.k,
                         .v = args.v,
                         .write_logit = logits[0],
                         .forget_logit = logits[1],
                         .write_memory = parameters.write_memory,
                         .forget_memory = parameters.forget_memory,
                         .initial_state = Find(options.initial_state, kState),
                         .decayed_erase = decayed_erase,
                         .wants_gates = static_cast<bool>(options.taps)};
  if (!sila.initial_state.defined() && parameters.initial_memory.defined()) {
    sila.initial_state = parameters.initial_memory.expand({args.q.size(0), -1, -1, -1});
  }
  if (options.taps.Overrides()) {
    sila.forced_write_gate = ForcedWriteGates(options.taps, sila, options.path);
  }
  const kernels::SilaResult result = kernels::Sila(sila, options.path);
  // The token itself, which the state does not have yet: alpha <k, q> v.
  const at::Tensor alpha = at::sigmoid(logits[2]);
  const double scale = 1 / std::sqrt(static_cast<double>(args.q.size(3)));
  const at::Tensor own = alpha * (AtLeastFloat(args.q) * AtLeastFloat(args.k)).sum(-1) * scale;
  if (options.taps) Tap(options.taps, result, args.v, alpha);
  if (options.want_final_state) mixed.final_state.tensors[kState] = {result.final_state};
  return result.o + own.unsqueeze(-1).to(args.v.scalar_type()) * args.v;
}

std::unique_ptr<Mixer> Make(const SilaConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  if (!(config.memory_init_std >= 0 && std::isfinite(config.memory_init_std))) {
    throw ConfigError(where + "/memory_init_std", "must be a number that is not negative");
  }
  if (config.cross_head && !config.memory_gates) {
    throw ConfigError(where + "/cross_head", "needs memory_gates");
  }
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  layout.silu = true;
  layout.l2_norm = true;
  layout.write_gate = WriteGate::kOwn;
  layout.gate_columns = {3 * layout.num_heads};
  const Parameters parameters = MakeParameters(config, layout, scope);
  const auto gates = [bias = parameters.gate_bias](const std::vector<at::Tensor>& columns,
                                                   const MixerOptions&,
                                                   kernels::RecurrenceArgs& args) {
    args.beta = AtLeastFloat(columns[0]);
    if (bias.defined()) args.beta = args.beta + bias;
  };
  const MatrixCore core = {
      [parameters, decayed_erase = config.decayed_erase](
          const kernels::RecurrenceArgs& args, const MixerOptions& options, Mixed& mixed) {
        return Run(parameters, decayed_erase, args, options, mixed);
      },
      {{kState, {layout.num_heads, layout.head_k_dim, layout.head_v_dim}}}};
  MatrixProjection projection;
  if (config.learn_initial_memory) {
    projection.add_initial_state = [memory = parameters.initial_memory](std::int64_t batch_size,
                                                                        State& state) {
      state.tensors[kState].value = memory.detach().expand({batch_size, -1, -1, -1}).contiguous();
    };
  }
  return std::make_unique<MatrixStateMixer>(layout, gates, core, context, scope,
                                            std::move(projection));
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "SILA: a delta rule whose gates depend on what the memory recalls for the key";
  entry.source = "SILA: selective ignoring linear attention, equations 2 to 7";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"conv_size", 0},
             {"cross_head", true},
             {"memory_init_std", 0.5},
             {"gate_bias", true},
             {"decayed_erase", true},
             {"learn_initial_memory", true},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"memory_init_std", 1}},
      Object{{"memory_gates", false}, {"output_gate", "sigmoid"}},
  };
  registry.Add("sila", std::move(entry));
}

}  // namespace mixerbench::models::sila
