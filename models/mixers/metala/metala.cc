// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/metala/metala.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/sigmoid.h>

#include "kernels/gates/gates.h"
#include "kernels/linear_attention/gla/gla.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/blocks/short_convolution.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::metala {
namespace {

constexpr char kConvolution[] = "conv";

const Fields<MetaLaConfig>& ConfigFields() {
  static const auto fields =
      Fields<MetaLaConfig>()
          .Add("num_heads", &MetaLaConfig::num_heads, "heads")
          .Add("expand_k", &MetaLaConfig::expand_k, "key channels per channel of d_model")
          .Add("expand_v", &MetaLaConfig::expand_v, "value channels per channel of d_model")
          .Add("gate_logit_normalizer", &MetaLaConfig::gate_logit_normalizer,
               "log decay = log sigmoid(logit) / this")
          .Add("conv_size", &MetaLaConfig::conv_size,
               "width of a convolution with silu on the input; 0: none")
          .Add("self_augmentation", &MetaLaConfig::self_augmentation,
               "adds sigmoid(q . (w * k)) v to what a token reads")
          .Add("use_output_gate", &MetaLaConfig::use_output_gate,
               "silu gate after the norm of each head's output")
          .Add("norm_eps", &MetaLaConfig::norm_eps, "eps of that norm")
          .AddLater("init", &MetaLaConfig::init,
                    "of the projections of q and of the decay logits, where the backbone's policy "
                    "keeps what mixers ask for");
  return fields;
}

// The convolution of x, and what is projected from it.
class Projection {
 public:
  Projection(const MatrixLayout& layout, std::int64_t conv_size, const MixerContext& context,
             const ParameterScope& scope)
      : layout_(layout),
        in_proj_(scope.Child("in_proj"), context.d_model,
                 {{layout.key_dim(), layout.init},
                  {layout.key_dim(), layout.init},
                  {layout.value_dim()},
                  {GateColumns()}}) {
    if (conv_size > 0) {
      conv_.emplace(scope.Child("conv"), context.d_model, conv_size, /*bias=*/false);
    }
  }

  void AddInitialState(std::int64_t batch_size, State& state) const {
    if (!conv_) return;
    state.tensors[kConvolution] = {conv_->InitialHistory(batch_size), StateKind::kConvolution};
  }

  MatrixColumns operator()(const MixerInputs& inputs, const MixerOptions& options,
                           Mixed& mixed) const {
    at::Tensor x = inputs.x;
    if (conv_) {
      auto convolved =
          (*conv_)(x, Find(options.initial_state, kConvolution), options.path, {.silu = true});
      x = convolved.y;
      if (options.want_final_state) {
        mixed.final_state.tensors[kConvolution] = {convolved.history, StateKind::kConvolution};
      }
    }
    std::vector<kernels::ColumnBlock> blocks = {layout_.key_dim(), layout_.key_dim(),
                                                layout_.value_dim()};
    if (GateColumns() > 0) blocks.emplace_back(GateColumns(), /*only_scored=*/true);
    const auto parts = in_proj_.Columns(x, blocks, options.scored, options.path);
    const auto heads = [&](const at::Tensor& y) {
      return y.unflatten(-1, {layout_.num_heads, -1});
    };
    MatrixColumns columns{.q = heads(parts[0]), .k = heads(parts[1]), .v = heads(parts[2])};
    if (GateColumns() > 0) columns.output_gate = {parts[3], options.scored != nullptr};
    return columns;
  }

 private:
  std::int64_t GateColumns() const { return layout_.output.gate_columns(layout_.value_dim()); }

  MatrixLayout layout_;
  Linear in_proj_;
  std::optional<ShortConvolution> conv_;
};

// What a token reads gets sigmoid(q . (w * k)) of its own value. w [H,K]
MatrixCore WithSelfAugmentation(MatrixCore core, const at::Tensor& w) {
  core.run = [run = core.run, w](kernels::RecurrenceArgs args, const MixerOptions& options,
                                 Mixed& mixed) {
    const at::Tensor match = (AtLeastFloat(args.q) * w * AtLeastFloat(args.k)).sum(-1, true);
    const at::Tensor added = (at::sigmoid(match) * args.v).to(args.v.scalar_type());
    return run(std::move(args), options, mixed) + added;
  };
  return core;
}

std::unique_ptr<Mixer> Make(const MetaLaConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckPositive(config.gate_logit_normalizer, where, "gate_logit_normalizer");
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  layout.conv_size = 0;  // the projection has its own, of x
  layout.silu = false;
  layout.write_gate = WriteGate::kOwn;
  layout.output.norm = OutputNormKind::kLayerPerHead;
  layout.output.gate_bias = config.use_output_gate;
  layout.init = config.init;
  const auto projection =
      std::make_shared<const Projection>(layout, config.conv_size, context, scope);
  const auto gates = [=](const std::vector<at::Tensor>&, const MixerOptions& options,
                         kernels::RecurrenceArgs& args) {
    args.log_decay = kernels::LogSigmoidDecay(args.k, config.gate_logit_normalizer,
                                              /*floor=*/0, options.path);
    args.k = TapMeanWriteGate(options.taps, -at::expm1(args.log_decay)).to(args.k.scalar_type());
  };
  MatrixCore core = OneState(kernels::Gla, layout);
  if (config.self_augmentation) {
    core = WithSelfAugmentation(
        std::move(core),
        scope.AddSpecial("self_augmentation", {layout.num_heads, layout.head_k_dim},
                         Init::Constant(0)));
  }
  return std::make_unique<MatrixStateMixer>(layout, gates, std::move(core), context, scope,
                                            ProjectionOf(projection));
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "MetaLA: keys are what decays leave, with a read of a token's own value";
  entry.source = "arXiv 2411.10741";
  entry.test_configs = {Object{{"num_heads", 4},
                               {"expand_k", 1},
                               {"expand_v", 2},
                               {"gate_logit_normalizer", 1},
                               {"conv_size", 0},
                               {"self_augmentation", false},
                               {"use_output_gate", false},
                               {"norm_eps", 1e-6},
                               {"init", "backbone"}},
                        Object{{"conv_size", 3}, {"gate_logit_normalizer", 0.1}}};
  registry.Add("metala", std::move(entry));
}

}  // namespace mixerbench::models::metala
