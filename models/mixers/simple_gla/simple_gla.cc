// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/simple_gla/simple_gla.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>

#include "kernels/fused/columns.h"
#include "kernels/fused/gates.h"
#include "kernels/scalar_decay/scalar_decay.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/linear.h"
#include "models/blocks/matrix_heads.h"
#include "models/blocks/short_convolution.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::simple_gla {
namespace {

const Fields<SimpleGlaConfig>& ConfigFields() {
  using Config = SimpleGlaConfig;
  static const auto fields =
      Fields<Config>()
          .Add("num_heads", &Config::num_heads, "heads")
          .Add("expand_k", &Config::expand_k, "key channels per channel of d_model")
          .Add("expand_v", &Config::expand_v, "value channels per channel of d_model")
          .Add("gate_logit_normalizer", &Config::gate_logit_normalizer,
               "log decay = log sigmoid(logit) / this")
          .Add("conv_size", &Config::conv_size,
               "width of a convolution with silu on q, k, v; 0: none")
          .Add("output_gate", &Config::output_gate, "after the norm of each head's output")
          .Add("norm_eps", &Config::norm_eps, "eps of that norm");
  return fields;
}

class SimpleGla final : public Mixer {
 public:
  SimpleGla(const SimpleGlaConfig& config, const MatrixHeads& heads, std::int64_t d_model,
            const ParameterScope& scope)
      : config_(config),
        heads_(heads),
        in_proj_(scope.Child("in_proj"), d_model,
                 2 * heads_.key_dim() + (has_output_gate() ? 2 : 1) * heads_.value_dim() +
                     config.num_heads,
                 /*bias=*/false),
        decay_bias_(scope.Add("decay_bias", {config.num_heads}, ParameterRole::kLinearBias,
                              Init::Constant(0))),
        norm_(scope.Child("o_norm"), heads.head_v_dim, config.norm_eps, config.output_gate),
        o_proj_(scope.Child("o_proj"), heads_.value_dim(), d_model, /*bias=*/false) {
    if (config.conv_size > 0) {
      conv_.emplace(scope.Child("conv"), 2 * heads_.key_dim() + heads_.value_dim(),
                    config.conv_size,
                    /*bias=*/false);
    }
  }

  MixerOutput Forward(const at::Tensor& x, const ForwardOptions& options) const override {
    const State* initial = options.initial_state;
    MixerOutput output;

    std::vector<kernels::fused::ColumnBlock> blocks = {2 * heads_.key_dim() + heads_.value_dim(),
                                                       heads_.num_heads};
    if (has_output_gate()) blocks.emplace_back(heads_.value_dim(), /*only_at_rows=*/true);
    std::vector<at::Tensor> parts;
    if (conv_) {
      auto projected = conv_->Project(in_proj_, x, blocks, options.rows,
                                      initial != nullptr ? initial->at("conv") : at::Tensor(),
                                      {.silu = true, .path = options.path});
      parts = std::move(projected.columns);
      if (options.want_final_state) output.final_state["conv"] = projected.history;
    } else {
      parts = in_proj_.Columns(x, blocks, options.rows, options.path);
    }
    const auto heads = kernels::fused::SplitColumns(
        parts[0], {heads_.key_dim(), heads_.key_dim(), heads_.value_dim()}, options.path);

    kernels::RecurrenceArgs args;
    args.q = heads[0].unflatten(-1, {heads_.num_heads, heads_.head_k_dim});
    args.k = heads[1].unflatten(-1, {heads_.num_heads, heads_.head_k_dim});
    args.v = heads[2].unflatten(-1, {heads_.num_heads, heads_.head_v_dim});
    args.log_decay = kernels::fused::LogSigmoidDecay(
        AtLeastFloat(parts[1]) + decay_bias_, config_.gate_logit_normalizer, 0, options.path);
    if (initial != nullptr) args.initial_state = initial->at("state");
    if (options.taps != nullptr) {
      args.k = TapWriteStrength(*options.taps, args.k, args.v);
      options.taps->Record("log_decay", args.log_decay);
    }
    kernels::RecurrenceResult result = kernels::ScalarDecay(args, options.path);
    if (options.taps != nullptr) TapState(*options.taps, result.final_state);

    const at::Tensor gate = has_output_gate() ? parts.back() : at::Tensor();
    output.y = norm_.Projected(o_proj_, result.o, gate, options.path, options.rows);
    if (options.want_final_state) output.final_state["state"] = std::move(result.final_state);
    return output;
  }

  State InitialState(std::int64_t batch_size) const override {
    return heads_.InitialState(batch_size, in_proj_.weight(), conv_);
  }

  StateSize state_size(std::int64_t) const override { return heads_.state_size(conv_); }

 private:
  bool has_output_gate() const { return config_.output_gate != OutputGate::kNone; }

  SimpleGlaConfig config_;
  MatrixHeads heads_;
  Linear in_proj_;  // rows: q, k, v, the decay logits, then the output gate
  at::Tensor decay_bias_;
  std::optional<ShortConvolution> conv_;
  OutputNorm norm_;
  Linear o_proj_;
};

std::unique_ptr<Mixer> Make(const SimpleGlaConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.conv_size, 0, 64, where, "conv_size");
  CheckEps(config.norm_eps, where, "norm_eps");
  if (!(config.gate_logit_normalizer > 0)) {
    throw ConfigError(where + "/gate_logit_normalizer", "must be positive");
  }
  const MatrixHeads heads = MakeMatrixHeads(config, context.d_model, where);
  return std::make_unique<SimpleGla>(config, heads, context.d_model, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "gated linear attention with one data-dependent decay per head";
  entry.source = "arXiv 2312.06635 section 3; fla-org/flash-linear-attention simple_gla";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"gate_logit_normalizer", 1},
             {"conv_size", 0},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"gate_logit_normalizer", 0.1}, {"output_gate", "sigmoid"}},
  };
  registry.Add("simple_gla", std::move(entry));
}

}  // namespace mixerbench::models::simple_gla
