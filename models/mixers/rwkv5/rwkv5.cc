// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/rwkv5/rwkv5.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>

#include "models/blocks/bonus_state.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/rwkv_heads.h"
#include "models/blocks/rwkv_start.h"
#include "models/blocks/token_shift.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::rwkv5 {
namespace {

const Fields<Rwkv5Config>& ConfigFields() {
  static const auto fields =
      Fields<Rwkv5Config>()
          .Add("num_heads", &Rwkv5Config::num_heads, "heads")
          .Add("norm_eps", &Rwkv5Config::norm_eps, "eps of the norm of a head's output over 8")
          .AddLater("by_depth", &Rwkv5Config::by_depth,
                    "starts by the layer's depth; MAD's layers all start as a single one");
  return fields;
}

// Token shift with constant shares, and what is projected from the four mixes.
class Projection {
 public:
  Projection(std::int64_t num_heads, const RwkvStart& start, const MixerContext& context,
             const ParameterScope& scope)
      : token_mix_(scope.AddSpecial("token_mix", StartShares(start))),
        heads_(num_heads, context, scope) {}

  void AddInitialState(std::int64_t batch_size, State& state) const {
    AddShiftState(batch_size, heads_.weight(), state);
  }

  MatrixColumns operator()(const MixerInputs& inputs, const MixerOptions& options,
                           Mixed& mixed) const {
    const at::Tensor differences = TokenDifferences(inputs.x, options, mixed);
    const auto mixes = ShiftMixes(inputs.x, differences, 1 - token_mix_);
    return heads_(mixes[0], mixes[1], mixes[2], mixes[3], options);
  }

 private:
  static at::Tensor StartShares(const RwkvStart& start) {
    return at::stack({start.Share(0.5), start.Share(1), start.ValueShare(), start.Share(0.5)});
  }

  at::Tensor token_mix_;  // [4,D]: the shares of the token itself in r, k, v and the gate
  RwkvHeads heads_;
};

RwkvStart StartOf(const Rwkv5Config& config, MixerContext context) {
  if (!config.by_depth) {
    context.layer_index = 0;
    context.num_layers = 1;
  }
  return RwkvStart(context);
}

std::unique_ptr<Mixer> Make(const Rwkv5Config& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const MatrixLayout layout = RwkvLayout(config.num_heads, config.norm_eps, context.d_model, where);
  const RwkvStart start = StartOf(config, context);
  const auto projection =
      std::make_shared<const Projection>(config.num_heads, start, context, scope);
  const auto add = [&](const char* name, const at::Tensor& values) {
    return scope.AddSpecial(name, values.view({config.num_heads, -1}));
  };
  const at::Tensor decay = add("decay", start.Decay());
  const auto gates = [decay](const std::vector<at::Tensor>&, const MixerOptions&,
                             kernels::RecurrenceArgs& args) {
    args.log_decay = (-at::exp(decay)).expand(args.k.sizes());
  };
  return std::make_unique<MatrixStateMixer>(layout, gates,
                                            BonusState(add("bonus", start.Bonus()), layout),
                                            context, scope, ProjectionOf(projection));
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "RWKV-5: a constant decay per channel, a bonus for the token, token shift";
  entry.source = "arXiv 2404.05892";
  entry.test_configs = {Object{{"num_heads", 2}, {"norm_eps", 1e-4}, {"by_depth", false}}};
  registry.Add("rwkv5", std::move(entry));
}

}  // namespace mixerbench::models::rwkv5
