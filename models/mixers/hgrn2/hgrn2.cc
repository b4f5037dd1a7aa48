// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/hgrn2/hgrn2.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>

#include "kernels/gates/gates.h"
#include "kernels/linear_attention/gla/gla.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::hgrn2 {
namespace {

const Fields<Hgrn2Config>& ConfigFields() {
  static const auto fields =
      MatrixFields<Hgrn2Config>(
          "width of a convolution on q, forget logits and v, without activation; 0: none")
          .Add("lower_bounds", &Hgrn2Config::lower_bounds,
               "learned lower bounds of the forget gates, 0 in layer 0");
  return fields;
}

// The forget gate alpha = lb + (1 - lb) sigmoid(z), as its logarithm and 1 - alpha.
struct ForgetGate {
  at::Tensor log_decay;
  at::Tensor input_gate;
};

ForgetGate Unbounded(const at::Tensor& z, ExecutionPath path) {
  return {kernels::LogSigmoidDecay(z, /*temperature=*/1, /*floor=*/0, path), at::sigmoid(-z)};
}

// lb in (0,1) [H,K]. log alpha = log(1 - k) + log(2 alpha), the first bounded by k = 1/2, the
// second by alpha = 1/2: where little is forgotten the second is exactly 0 and costs the first no
// digits.
ForgetGate Bounded(const at::Tensor& z, const at::Tensor& lower_bound) {
  const at::Tensor input_gate = (1 - lower_bound) * at::sigmoid(-z);
  const at::Tensor alpha = lower_bound + (1 - lower_bound) * at::sigmoid(z);
  return {at::log1p(-input_gate.clamp_max(0.5)) + at::log(2 * alpha.clamp_max(0.5)), input_gate};
}

std::unique_ptr<Mixer> Make(const Hgrn2Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  MatrixLayout layout = KeyLayoutOf(config, context.d_model, where);
  layout.head_v_dim =
      DivideExactly(context.d_model, config.num_heads, where, "num_heads", "d_model");
  layout.silu = false;
  layout.write_gate = WriteGate::kOwn;
  layout.output.norm = OutputNormKind::kAllHeads;
  at::Tensor logits;  // of the steps between the bounds of all layers [L,H,K]
  const std::int64_t layer = context.layer_index;
  if (config.lower_bounds && layer > 0) {
    const std::vector<std::int64_t> sizes = {context.num_layers, layout.num_heads,
                                             layout.head_k_dim};
    logits = scope.Shared().Child("hgrn2").AddSpecial("lower_bounds_" +
                                                          std::to_string(layout.num_heads) + "x" +
                                                          std::to_string(layout.head_k_dim),
                                                      sizes, Init::Constant(0));
  }
  const auto gates = [=](const std::vector<at::Tensor>&, const MixerOptions& options,
                         kernels::RecurrenceArgs& args) {
    const at::Tensor z = AtLeastFloat(args.k);
    const ForgetGate gate = logits.defined()
                                ? Bounded(z, at::softmax(logits, 0).slice(0, 1, layer + 1).sum(0))
                                : Unbounded(z, options.path);
    args.q = at::silu(args.q);
    args.k = TapMeanWriteGate(options.taps, gate.input_gate).to(args.k.scalar_type());
    args.log_decay = gate.log_decay;
  };
  return std::make_unique<MatrixStateMixer>(layout, gates, OneState(kernels::Gla, layout), context,
                                            scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "HGRN2: keys are what forget gates leave, bounded from below by depth";
  entry.source = "arXiv 2404.07904";
  entry.test_configs = {Object{{"num_heads", 4},
                               {"expand_k", 2},
                               {"lower_bounds", false},
                               {"conv_size", 4},
                               {"norm_eps", 1e-6}}};
  registry.Add("hgrn2", std::move(entry));
}

}  // namespace mixerbench::models::hgrn2
