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

#include "kernels/linear/linear.h"
#include "models/blocks/bonus_state.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/rwkv_heads.h"
#include "models/blocks/rwkv_start.h"
#include "models/blocks/token_shift.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::rwkv6 {
namespace {

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
      : base_mix_(scope.AddSpecial("base_mix", 1 - RwkvStart(context).Share(1))),
        token_mix_(scope.AddSpecial("token_mix", StartShares(context))),
        mix_down_(
            AddLowRank(scope, "mix_down", {kNumMixes * config.mix_low_rank_dim, context.d_model})),
        mix_up_(AddLowRank(scope, "mix_up", {kNumMixes, config.mix_low_rank_dim, context.d_model})),
        decay_down_(AddLowRank(scope, "decay_down", {config.decay_low_rank_dim, context.d_model})),
        decay_up_(AddLowRank(scope, "decay_up", {context.d_model, config.decay_low_rank_dim})),
        decay_bias_(scope.AddSpecial("decay_bias", RwkvStart(context).Decay())),
        heads_(config.num_heads, context, scope) {}

  void AddInitialState(std::int64_t batch_size, State& state) const {
    AddShiftState(batch_size, heads_.weight(), state);
  }

  MatrixColumns operator()(const MixerInputs& inputs, const MixerOptions& options,
                           Mixed& mixed) const {
    const at::Tensor differences = TokenDifferences(inputs.x, options, mixed);
    const auto mixes =
        ShiftMixes(inputs.x, differences, Shares(inputs.x, differences, options.path));
    MatrixColumns columns = heads_(mixes[3], mixes[1], mixes[2], mixes[4], options);
    const auto low_rank = [&](const at::Tensor& y, const at::Tensor& weight) {
      return kernels::Linear(y, weight, /*bias=*/{}, options.path);
    };
    columns.gates = {AtLeastFloat(low_rank(at::tanh(low_rank(mixes[0], decay_down_)), decay_up_)) +
                     decay_bias_};
    return columns;
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

  // mu_c + m_c [5,B,T,D] of the five mixes c; the m_c are low-rank maps of a first mix.
  at::Tensor Shares(const at::Tensor& x, const at::Tensor& differences, ExecutionPath path) const {
    const at::Tensor first = (x + differences * base_mix_).to(x.scalar_type());
    const at::Tensor inner =
        at::tanh(kernels::Linear(first, mix_down_, /*bias=*/{}, path));  // [B,T,5 R]
    const at::Tensor maps =
        at::bmm(inner.flatten(0, 1).unflatten(-1, {kNumMixes, -1}).transpose(0, 1),
                mix_up_.to(inner.scalar_type()));  // [5,B T,D]
    return maps.view({kNumMixes, x.size(0), x.size(1), x.size(2)}) +
           token_mix_.unsqueeze(1).unsqueeze(1);
  }

  at::Tensor base_mix_;    // [D]: the share of the token before, as are all here
  at::Tensor token_mix_;   // [5,D]
  at::Tensor mix_down_;    // [5 R,D]
  at::Tensor mix_up_;      // [5,R,D]
  at::Tensor decay_down_;  // [R',D]
  at::Tensor decay_up_;    // [D,R']
  at::Tensor decay_bias_;  // [D]
  RwkvHeads heads_;
};

std::unique_ptr<Mixer> Make(const Rwkv6Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.mix_low_rank_dim, 1, 4096, where, "mix_low_rank_dim");
  CheckRange(config.decay_low_rank_dim, 1, 4096, where, "decay_low_rank_dim");
  const MatrixLayout layout = RwkvLayout(config.num_heads, config.norm_eps, context.d_model, where);
  const auto projection = std::make_shared<const Projection>(config, context, scope);
  const at::Tensor bonus =
      scope.AddSpecial("bonus", RwkvStart(context).Bonus().view({config.num_heads, -1}));
  const auto gates = [](const std::vector<at::Tensor>& columns, const MixerOptions&,
                        kernels::RecurrenceArgs& args) {
    args.log_decay = -at::exp(columns[0].clamp_max(kMaxDecayLogit)).view(args.k.sizes());
  };
  return std::make_unique<MatrixStateMixer>(layout, gates, BonusState(bonus, layout), context,
                                            scope, ProjectionOf(projection));
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
