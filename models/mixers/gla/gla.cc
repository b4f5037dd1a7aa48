// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gla/gla.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/fused/columns.h"
#include "kernels/fused/gates.h"
#include "kernels/fused/rows.h"
#include "kernels/vector_decay/vector_decay.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"
#include "models/blocks/matrix_heads.h"
#include "models/blocks/short_convolution.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::gla {
namespace {

const Fields<GlaConfig>& ConfigFields() {
  static const auto fields =
      Fields<GlaConfig>()
          .Add("num_heads", &GlaConfig::num_heads, "heads")
          .Add("expand_k", &GlaConfig::expand_k, "key channels per channel of d_model")
          .Add("expand_v", &GlaConfig::expand_v, "value channels per channel of d_model")
          .Add("gate_low_rank_dim", &GlaConfig::gate_low_rank_dim,
               "width between the two projections of the decay logits")
          .Add("gate_logit_normalizer", &GlaConfig::gate_logit_normalizer,
               "log decay = log sigmoid(logit) / this")
          .Add("min_log_decay", &GlaConfig::min_log_decay,
               "lower bound of the log decay, negative; 0: none")
          .Add("conv_size", &GlaConfig::conv_size,
               "width of a convolution with silu on q, k, v; 0: none")
          .Add("output_gate", &GlaConfig::output_gate, "after the norm of each head's output")
          .Add("norm_eps", &GlaConfig::norm_eps, "eps of that norm");
  return fields;
}

class Gla final : public Mixer {
 public:
  Gla(const GlaConfig& config, const MatrixHeads& heads, std::int64_t d_model,
      const ParameterScope& scope)
      : config_(config),
        heads_(heads),
        in_proj_(scope.Child("in_proj"), d_model,
                 2 * heads_.key_dim() + (has_output_gate() ? 2 : 1) * heads_.value_dim() +
                     config.gate_low_rank_dim,
                 /*bias=*/false),
        decay_proj_(scope.Child("decay_proj"), config.gate_low_rank_dim, heads_.key_dim(),
                    /*bias=*/true),
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

    // q, k and v are views of the projection, or of what the convolution makes of it.
    const bool few_queries = AsksForFewRows(x, options);
    std::vector<kernels::fused::ColumnBlock> blocks = {
        {heads_.key_dim(), /*only_at_rows=*/few_queries}, heads_.key_dim(), heads_.value_dim()};
    if (conv_) blocks = {2 * heads_.key_dim() + heads_.value_dim()};
    const std::size_t low_rank = blocks.size();
    blocks.emplace_back(config_.gate_low_rank_dim);
    if (has_output_gate()) blocks.emplace_back(heads_.value_dim(), /*only_at_rows=*/true);
    std::vector<at::Tensor> parts;
    std::vector<at::Tensor> heads;
    if (conv_) {
      auto projected = conv_->Project(in_proj_, x, blocks, options.rows,
                                      initial != nullptr ? initial->at("conv") : at::Tensor(),
                                      {.silu = true, .path = options.path});
      parts = std::move(projected.columns);
      heads = kernels::fused::SplitColumns(
          parts[0], {heads_.key_dim(), heads_.key_dim(), heads_.value_dim()}, options.path);
      if (options.want_final_state) output.final_state["conv"] = projected.history;
    } else {
      parts = in_proj_.Columns(x, blocks, options.rows, options.path);
      heads = parts;
    }
    const at::Tensor log_decay = kernels::fused::LogSigmoidDecay(
        decay_proj_(parts[low_rank], options.path), config_.gate_logit_normalizer,
        config_.min_log_decay, options.path);

    kernels::RecurrenceArgs args;
    if (few_queries) {  // [M,H K]
      args.rows = options.rows;
      if (conv_) heads[0] = kernels::fused::GatherRows(heads[0], *options.rows, options.path);
      heads[0] = heads[0].unflatten(0, {x.size(0), options.rows->rows_per_sequence});
    }
    args.q = heads[0].unflatten(-1, {heads_.num_heads, heads_.head_k_dim});
    args.k = heads[1].unflatten(-1, {heads_.num_heads, heads_.head_k_dim});
    args.v = heads[2].unflatten(-1, {heads_.num_heads, heads_.head_v_dim});
    args.log_decay = log_decay.view(args.k.sizes());
    if (initial != nullptr) args.initial_state = initial->at("state");
    if (options.taps != nullptr) {
      args.k = TapWriteStrength(*options.taps, args.k, args.v);
      options.taps->Record("log_decay", args.log_decay);
    }
    kernels::RecurrenceResult result = kernels::VectorDecay(args, options.path);
    if (options.taps != nullptr) TapState(*options.taps, result.final_state);

    const at::Tensor gate = has_output_gate() ? parts.back() : at::Tensor();
    output.y = few_queries ? o_proj_(norm_.OfRows(result.o, gate, options.path), options.path)
                           : norm_.Projected(o_proj_, result.o, gate, options.path, options.rows);
    if (options.want_final_state) output.final_state["state"] = std::move(result.final_state);
    return output;
  }

  State InitialState(std::int64_t batch_size) const override {
    return heads_.InitialState(batch_size, in_proj_.weight(), conv_);
  }

  StateSize state_size(std::int64_t) const override { return heads_.state_size(conv_); }

 private:
  bool has_output_gate() const { return config_.output_gate != OutputGate::kNone; }

  // Whether so few outputs of each sequence are wanted that only their queries are formed.
  bool AsksForFewRows(const at::Tensor& x, const ForwardOptions& options) const {
    return options.rows != nullptr && options.initial_state == nullptr &&
           !options.want_final_state && options.taps == nullptr &&
           kernels::vector_decay::PrefersRows(x, options.rows->rows_per_sequence, heads_.head_k_dim,
                                              heads_.head_v_dim);
  }

  GlaConfig config_;
  MatrixHeads heads_;
  Linear in_proj_;     // rows: q, k, v, inner decay logits, then the output gate
  Linear decay_proj_;  // from the inner to the full decay logits
  std::optional<ShortConvolution> conv_;
  OutputNorm norm_;
  Linear o_proj_;
};

std::unique_ptr<Mixer> Make(const GlaConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.gate_low_rank_dim, 1, 4096, where, "gate_low_rank_dim");
  CheckRange(config.conv_size, 0, 64, where, "conv_size");
  CheckEps(config.norm_eps, where, "norm_eps");
  if (!(config.gate_logit_normalizer > 0)) {
    throw ConfigError(where + "/gate_logit_normalizer", "must be positive");
  }
  if (!(config.min_log_decay <= 0)) {
    throw ConfigError(where + "/min_log_decay", "must be negative, or 0 for no bound");
  }
  const MatrixHeads heads = MakeMatrixHeads(config, context.d_model, where);
  return std::make_unique<Gla>(config, heads, context.d_model, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "gated linear attention: a matrix state with one decay per key channel";
  entry.source = "arXiv 2312.06635";
  entry.test_configs = {
      Object{{"num_heads", 4},
             {"expand_k", 1},
             {"expand_v", 2},
             {"gate_low_rank_dim", 4},
             {"gate_logit_normalizer", 1},
             {"conv_size", 4},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"gate_logit_normalizer", 0.1}, {"min_log_decay", -5}, {"output_gate", "sigmoid"}},
  };
  registry.Add("gla", std::move(entry));
}

}  // namespace mixerbench::models::gla
