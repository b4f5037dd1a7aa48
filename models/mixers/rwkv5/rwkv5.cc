// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/rwkv5/rwkv5.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "models/blocks/bonus_state.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/rwkv_start.h"
#include "models/blocks/token_shift.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::rwkv5 {
namespace {

constexpr char kShift[] = "shift";

const Fields<Rwkv5Config>& ConfigFields() {
  static const auto fields =
      Fields<Rwkv5Config>()
          .Add("num_heads", &Rwkv5Config::num_heads, "heads")
          .Add("norm_eps", &Rwkv5Config::norm_eps, "eps of the norm of a head's output over 8");
  return fields;
}

// Token shift with constant shares, and what is projected from the four mixes.
class Projection {
 public:
  Projection(std::int64_t num_heads, const MixerContext& context, const ParameterScope& scope)
      : num_heads_(num_heads),
        token_mix_(scope.AddSpecial("token_mix", StartShares(context))),
        r_proj_(scope.Child("r_proj"), context.d_model, context.d_model, /*bias=*/false),
        k_proj_(scope.Child("k_proj"), context.d_model, context.d_model, /*bias=*/false),
        v_proj_(scope.Child("v_proj"), context.d_model, context.d_model, /*bias=*/false),
        g_proj_(scope.Child("g_proj"), context.d_model, context.d_model, /*bias=*/false) {}

  void AddInitialState(std::int64_t batch_size, State& state) const {
    const at::Tensor& weight = r_proj_.weight();
    state.tensors[kShift] = {
        at::zeros({batch_size, weight.size(1)}, weight.options().requires_grad(false)),
        StateKind::kTokenShift};
  }

  MatrixColumns operator()(const MixerInputs& inputs, const MixerOptions& options,
                           Mixed& mixed) const {
    const at::Tensor& x = inputs.x;
    const ShiftedTokens shifted = ShiftTokens(x, Find(options.initial_state, kShift));
    if (options.want_final_state) {
      mixed.final_state.tensors[kShift] = {shifted.last, StateKind::kTokenShift};
    }
    const at::Tensor of_previous = 1 - token_mix_.unsqueeze(1).unsqueeze(1);  // [4,1,1,D]
    const auto mixes = (x + shifted.delta * of_previous).to(x.scalar_type()).unbind(0);
    const auto heads = [&](const at::Tensor& y) { return y.unflatten(-1, {num_heads_, -1}); };
    const auto gate = g_proj_.Columns(mixes[3], {{x.size(-1), /*only_scored=*/true}},
                                      options.scored, options.path);
    return {.q = heads(r_proj_(mixes[0], options.path)),
            .k = heads(k_proj_(mixes[1], options.path)),
            .v = heads(v_proj_(mixes[2], options.path)),
            .output_gate = {gate[0], options.scored != nullptr}};
  }

 private:
  static at::Tensor StartShares(const MixerContext& context) {
    const RwkvStart start(context);
    return at::stack({start.Share(0.5), start.Share(1), start.ValueShare(), start.Share(0.5)});
  }

  std::int64_t num_heads_;
  at::Tensor token_mix_;  // [4,D]: the shares of the token itself in r, k, v and the gate
  Linear r_proj_;
  Linear k_proj_;
  Linear v_proj_;
  Linear g_proj_;
};

std::unique_ptr<Mixer> Make(const Rwkv5Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  constexpr double kOutputDivisor = 8;
  CheckEps(config.norm_eps, where, "norm_eps");
  const std::int64_t head_dim =
      DivideExactly(context.d_model, config.num_heads, where, "num_heads", "d_model");
  MatrixLayout layout{.num_heads = config.num_heads, .qk_heads = config.num_heads};
  layout.head_k_dim = layout.head_v_dim = head_dim;
  layout.output.norm = OutputNormKind::kGroup;
  layout.output.gate = OutputGate::kSilu;
  // The norm of o / 8 is that of o with a larger eps.
  layout.output.eps = config.norm_eps * kOutputDivisor * kOutputDivisor;
  const auto projection = std::make_shared<const Projection>(config.num_heads, context, scope);
  const RwkvStart start(context);
  const auto add = [&](const char* name, const at::Tensor& values) {
    return scope.AddSpecial(name, values.view({config.num_heads, head_dim}));
  };
  const at::Tensor decay = add("decay", start.Decay());
  const auto gates = [decay](const std::vector<at::Tensor>&, const MixerOptions&,
                             kernels::RecurrenceArgs& args) {
    args.log_decay = (-at::exp(decay)).expand(args.k.sizes());
  };
  return std::make_unique<MatrixStateMixer>(
      layout, gates, BonusState(add("bonus", start.Bonus()), layout), context, scope,
      MatrixProjection{
          .run = [projection](const MixerInputs& inputs, const MixerOptions& options,
                              Mixed& mixed) { return (*projection)(inputs, options, mixed); },
          .add_initial_state =
              [projection](std::int64_t batch_size, State& state) {
                projection->AddInitialState(batch_size, state);
              }});
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "RWKV-5: a constant decay per channel, a bonus for the token, token shift";
  entry.source = "arXiv 2404.05892";
  entry.test_configs = {Object{{"num_heads", 2}, {"norm_eps", 1e-4}}};
  registry.Add("rwkv5", std::move(entry));
}

}  // namespace mixerbench::models::rwkv5
