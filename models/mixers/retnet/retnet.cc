// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/retnet/retnet.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>

#include "kernels/linear_attention/simple_gla/simple_gla.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/rotary_state.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::retnet {
namespace {

const Fields<RetNetConfig>& ConfigFields() {
  static const auto fields =
      MatrixFields<RetNetConfig>()
          .Add("expand_v", &RetNetConfig::expand_v, "value channels per channel of d_model")
          .Add("first_decay_exponent", &RetNetConfig::first_decay_exponent,
               "head 0 keeps 1 - 2^-this of its state at each token")
          .Add("last_decay_exponent", &RetNetConfig::last_decay_exponent,
               "of the last head, those between spread evenly; 0: one more for each head");
  return fields;
}

// log(1 - 2^-e_h), [H] in float64 on the CPU.
at::Tensor LogDecays(const RetNetConfig& config) {
  const std::int64_t num_heads = config.num_heads;
  const double first = config.first_decay_exponent;
  double step = 1;
  if (config.last_decay_exponent != 0 && num_heads > 1) {
    step = (config.last_decay_exponent - first) / static_cast<double>(num_heads - 1);
  }
  at::Tensor log_decays = at::empty({num_heads}, at::kDouble);
  auto* values = log_decays.mutable_data_ptr<double>();
  for (std::int64_t h = 0; h < num_heads; ++h) {
    values[h] = std::log1p(-std::exp2(-(first + step * static_cast<double>(h))));
  }
  return log_decays;
}

MatrixCore Retention(const MatrixLayout& layout) {
  MatrixCore core = OneState(kernels::SimpleGla, layout);
  core.run = [run = core.run](kernels::RecurrenceArgs args, const MixerOptions& options,
                              Mixed& mixed) {
    const std::int64_t seq_len = args.k.size(1);
    at::Tensor o = run(std::move(args), options, mixed);
    for (auto& [name, state] : mixed.final_state.tensors) {
      state.value = TurnedBack(state.value, seq_len, options.path);
    }
    return o;
  };
  return core;
}

// 1 - 2^-e lies in (0, 1) and differs from both in float32.
void CheckExponent(double exponent, const std::string& where, const std::string& option) {
  if (exponent > 0 && exponent <= 20) return;
  throw ConfigError(where + "/" + option, "must lie above 0 and be at most 20");
}

std::unique_ptr<Mixer> Make(const RetNetConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  layout.rotary = true;
  CheckExponent(config.first_decay_exponent, where, "first_decay_exponent");
  const double last = config.last_decay_exponent;
  if (last != 0) {
    CheckExponent(last, where, "last_decay_exponent");
  } else {
    CheckExponent(config.first_decay_exponent + static_cast<double>(config.num_heads - 1), where,
                  "num_heads");
  }
  DivideExactly(layout.head_k_dim, 2, where, "expand_k", "the key channels of a head,");
  const auto gates = [log_decays = LogDecays(config).to(scope.special_options())](
                         const std::vector<at::Tensor>&, const MixerOptions&,
                         kernels::RecurrenceArgs& args) {
    args.log_decay = log_decays.expand(args.k.sizes().slice(0, 3));
  };
  return std::make_unique<MatrixStateMixer>(layout, gates, Retention(layout), context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "retention: rotated keys and a constant decay per head";
  entry.source = "arXiv 2307.08621";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 0.5},
             {"expand_v", 1},
             {"first_decay_exponent", 1},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"first_decay_exponent", 3}, {"last_decay_exponent", 9}, {"output_gate", "sigmoid"}},
  };
  registry.Add("retnet", std::move(entry));
}

}  // namespace mixerbench::models::retnet
