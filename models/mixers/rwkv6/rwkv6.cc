// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/rwkv6/rwkv6.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include "kernels/linear/linear.h"
#include "models/blocks/bonus_state.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/rwkv_start.h"
#include "models/blocks/token_shift.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::rwkv6 {
namespace {

constexpr char kShift[] = "shift";
constexpr std::int64_t kNumMixes = 5;   // w, k, v, r, g
constexpr double kLowRankRange = 1e-4;  // start values of the low-rank maps
constexpr double kMaxDecayLogit = 4;    // a decay of e^-54.6: nothing is left

const Fields<Rwkv6Config>& ConfigFields() {
  static const auto fields =
      Fields<Rwkv6Config>()
          .Add("num_heads", &Rwkv6Config::num_heads, "heads")
          .Add("mix_low_rank_dim", &Rwkv6Config::mix_low_rank_dim,
               "width of the low-rank map of each data-dependent token shift")
          .Add("decay_low_rank_dim", &Rwkv6Config::decay_low_rank_dim,
               "width between the two projections of the decay logits")
          .Add("norm_eps", &Rwkv6Config::norm_eps, "eps of the norm of a head's output over 8");
  return fields;
}

// Token shift with shares that depend on the token, and what is projected from the five mixes.
class Projection {
 public:
  Projection(const Rwkv6Config& config, const MixerContext& context, const ParameterScope& scope)
      : num_heads_(config.num_heads),
        base_mix_(scope.AddSpecial("base_mix", 1 - RwkvStart(context).Share(1))),
        token_mix_(scope.AddSpecial("token_mix", StartShares(context))),
        mix_down_(
            AddLowRank(scope, "mix_down", {kNumMixes * config.mix_low_rank_dim, context.d_model})),
        mix_up_(AddLowRank(scope, "mix_up", {kNumMixes, config.mix_low_rank_dim, context.d_model})),
        decay_down_(AddLowRank(scope, "decay_down", {config.decay_low_rank_dim, context.d_model})),
        decay_up_(AddLowRank(scope, "decay_up", {context.d_model, config.decay_low_rank_dim})),
        decay_bias_(scope.AddSpecial("decay_bias", RwkvStart(context).Decay())),
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
    const auto mixes = Mixes(x, shifted.delta, options.path);
    const auto heads = [&](const at::Tensor& y) { return y.unflatten(-1, {num_heads_, -1}); };
    const auto low_rank = [&](const at::Tensor& y, const at::Tensor& weight) {
      return kernels::Linear(y, weight, /*bias=*/{}, options.path);
    };
    const at::Tensor decay =
        AtLeastFloat(low_rank(at::tanh(low_rank(mixes[0], decay_down_)), decay_up_)) + decay_bias_;
    const auto gate = g_proj_.Columns(mixes[4], {{x.size(-1), /*only_scored=*/true}},
                                      options.scored, options.path);
    return {.q = heads(r_proj_(mixes[3], options.path)),
            .k = heads(k_proj_(mixes[1], options.path)),
            .v = heads(v_proj_(mixes[2], options.path)),
            .gates = {decay},
            .output_gate = {gate[0], options.scored != nullptr}};
  }

 private:
  static at::Tensor StartShares(const MixerContext& context) {
    const RwkvStart start(context);
    return 1 - at::stack({start.Share(1), start.Share(1), start.ValueShare(), start.Share(0.5),
                          start.Share(0.5)});
  }

  static at::Tensor AddLowRank(const ParameterScope& scope, const char* name,
                               std::vector<std::int64_t> shape) {
    return scope.AddSpecial(name, std::move(shape), Init::Uniform(-kLowRankRange, kLowRankRange));
  }

  // x + delta * (mu_c + m_c) for the five mixes c; the m_c are low-rank maps of a first mix.
  std::vector<at::Tensor> Mixes(const at::Tensor& x, const at::Tensor& delta,
                                ExecutionPath path) const {
    const at::Tensor first = (x + delta * base_mix_).to(x.scalar_type());
    const at::Tensor inner =
        at::tanh(kernels::Linear(first, mix_down_, /*bias=*/{}, path));  // [B,T,5 R]
    const at::Tensor maps =
        at::bmm(inner.flatten(0, 1).unflatten(-1, {kNumMixes, -1}).transpose(0, 1),
                mix_up_.to(inner.scalar_type()));  // [5,B T,D]
    const at::Tensor shares = maps.view({kNumMixes, x.size(0), x.size(1), x.size(2)}) +
                              token_mix_.unsqueeze(1).unsqueeze(1);
    return (x + delta * shares).to(x.scalar_type()).unbind(0);
  }

  std::int64_t num_heads_;
  at::Tensor base_mix_;    // [D]: the share of the token before, as are all here
  at::Tensor token_mix_;   // [5,D]
  at::Tensor mix_down_;    // [5 R,D]
  at::Tensor mix_up_;      // [5,R,D]
  at::Tensor decay_down_;  // [R',D]
  at::Tensor decay_up_;    // [D,R']
  at::Tensor decay_bias_;  // [D]
  Linear r_proj_;
  Linear k_proj_;
  Linear v_proj_;
  Linear g_proj_;
};

std::unique_ptr<Mixer> Make(const Rwkv6Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  constexpr double kOutputDivisor = 8;
  CheckRange(config.mix_low_rank_dim, 1, 4096, where, "mix_low_rank_dim");
  CheckRange(config.decay_low_rank_dim, 1, 4096, where, "decay_low_rank_dim");
  CheckEps(config.norm_eps, where, "norm_eps");
  const std::int64_t head_dim =
      DivideExactly(context.d_model, config.num_heads, where, "num_heads", "d_model");
  MatrixLayout layout{.num_heads = config.num_heads, .qk_heads = config.num_heads};
  layout.head_k_dim = layout.head_v_dim = head_dim;
  layout.output.norm = OutputNormKind::kGroup;
  layout.output.gate = OutputGate::kSilu;
  // The norm of o / 8 is that of o with a larger eps.
  layout.output.eps = config.norm_eps * kOutputDivisor * kOutputDivisor;
  const auto projection = std::make_shared<const Projection>(config, context, scope);
  const at::Tensor bonus =
      scope.AddSpecial("bonus", RwkvStart(context).Bonus().view({config.num_heads, head_dim}));
  const auto gates = [](const std::vector<at::Tensor>& columns, const MixerOptions&,
                        kernels::RecurrenceArgs& args) {
    args.log_decay = -at::exp(columns[0].clamp_max(kMaxDecayLogit)).view(args.k.sizes());
  };
  return std::make_unique<MatrixStateMixer>(
      layout, gates, BonusState(bonus, layout), context, scope,
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
  entry.summary = "RWKV-6: data-dependent decay and token shift, a bonus for the token";
  entry.source = "arXiv 2404.05892";
  entry.test_configs = {Object{
      {"num_heads", 2}, {"mix_low_rank_dim", 4}, {"decay_low_rank_dim", 8}, {"norm_eps", 1e-4}}};
  registry.Add("rwkv6", std::move(entry));
}

}  // namespace mixerbench::models::rwkv6
