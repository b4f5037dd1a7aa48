// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gla/gla.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/zeros.h>

#include "kernels/fused/columns.h"
#include "kernels/fused/gates.h"
#include "kernels/fused/rows.h"
#include "kernels/vector_decay/vector_decay.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/linear.h"
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
  Gla(const GlaConfig& config, std::int64_t head_k_dim, std::int64_t head_v_dim,
      std::int64_t d_model, const ParameterScope& scope)
      : config_(config),
        head_k_dim_(head_k_dim),
        head_v_dim_(head_v_dim),
        in_proj_(
            scope.Child("in_proj"), d_model,
            2 * key_dim() + (has_output_gate() ? 2 : 1) * value_dim() + config.gate_low_rank_dim,
            /*bias=*/false),
        decay_proj_(scope.Child("decay_proj"), config.gate_low_rank_dim, key_dim(),
                    /*bias=*/true),
        norm_(scope.Child("o_norm"), head_v_dim, config.norm_eps, config.output_gate),
        o_proj_(scope.Child("o_proj"), value_dim(), d_model, /*bias=*/false) {
    if (config.conv_size > 0) {
      conv_.emplace(scope.Child("conv"), 2 * key_dim() + value_dim(), config.conv_size,
                    /*bias=*/false);
    }
  }

  MixerOutput Forward(const at::Tensor& x, const ForwardOptions& options) const override {
    const State* initial = options.initial_state;
    MixerOutput output;

    // q, k and v are views of the projection, or of what the convolution makes of it.
    const bool few_queries = AsksForFewRows(x, options);
    std::vector<kernels::fused::ColumnBlock> blocks = {
        {key_dim(), /*only_at_rows=*/few_queries}, key_dim(), value_dim()};
    if (conv_) blocks = {2 * key_dim() + value_dim()};
    const std::size_t low_rank = blocks.size();
    blocks.emplace_back(config_.gate_low_rank_dim);
    if (has_output_gate()) blocks.emplace_back(value_dim(), /*only_at_rows=*/true);
    const auto parts = in_proj_.Columns(x, blocks, options.rows);
    std::vector<at::Tensor> heads = parts;
    if (conv_) {
      const auto convolved =
          (*conv_)(parts[0], initial != nullptr ? initial->at("conv") : at::Tensor(),
                   {.silu = true, .path = options.path});
      heads = kernels::fused::SplitColumns(convolved.y, {key_dim(), key_dim(), value_dim()});
      if (options.want_final_state) output.final_state["conv"] = convolved.history;
    }
    const at::Tensor log_decay =
        kernels::fused::LogSigmoidDecay(decay_proj_(parts[low_rank]), config_.gate_logit_normalizer,
                                        config_.min_log_decay, options.path);

    kernels::RecurrenceArgs args;
    if (few_queries) {  // [M,H K]
      args.rows = options.rows;
      if (conv_) heads[0] = kernels::fused::GatherRows(heads[0], *options.rows, options.path);
      heads[0] = heads[0].unflatten(0, {x.size(0), options.rows->rows_per_sequence});
    }
    args.q = heads[0].unflatten(-1, {config_.num_heads, head_k_dim_});
    args.k = heads[1].unflatten(-1, {config_.num_heads, head_k_dim_});
    args.v = heads[2].unflatten(-1, {config_.num_heads, head_v_dim_});
    args.log_decay = log_decay.view(args.k.sizes());
    if (initial != nullptr) args.initial_state = initial->at("state");
    if (options.taps != nullptr) {
      args.k = TapWriteStrength(*options.taps, args.k, args.v);
      options.taps->Record("log_decay", args.log_decay);
    }
    kernels::RecurrenceResult result = kernels::VectorDecay(args, options.path);
    if (options.taps != nullptr) TapState(*options.taps, result.final_state);

    const at::Tensor gate = has_output_gate() ? parts.back() : at::Tensor();
    output.y = o_proj_(few_queries ? norm_.OfRows(result.o, gate, options.path)
                                   : norm_(result.o, gate, options.path, options.rows));
    if (options.want_final_state) output.final_state["state"] = std::move(result.final_state);
    return output;
  }

  State InitialState(std::int64_t batch_size) const override {
    State state;
    state["state"] = at::zeros({batch_size, config_.num_heads, head_k_dim_, head_v_dim_},
                               AtLeastFloat(in_proj_.weight()).options().requires_grad(false));
    if (conv_) state["conv"] = conv_->InitialHistory(batch_size);
    return state;
  }

  StateSize state_size(std::int64_t) const override {
    StateSize size;
    size.recurrent = config_.num_heads * head_k_dim_ * head_v_dim_;
    if (conv_) size.conv = conv_->width() * conv_->channels();
    return size;
  }

 private:
  std::int64_t key_dim() const { return config_.num_heads * head_k_dim_; }
  std::int64_t value_dim() const { return config_.num_heads * head_v_dim_; }
  bool has_output_gate() const { return config_.output_gate != OutputGate::kNone; }

  // Whether so few outputs of each sequence are wanted that only their queries are formed.
  bool AsksForFewRows(const at::Tensor& x, const ForwardOptions& options) const {
    return options.rows != nullptr && options.initial_state == nullptr &&
           !options.want_final_state && options.taps == nullptr &&
           kernels::vector_decay::PrefersRows(x, options.rows->rows_per_sequence, head_k_dim_,
                                              head_v_dim_);
  }

  GlaConfig config_;
  std::int64_t head_k_dim_;
  std::int64_t head_v_dim_;
  Linear in_proj_;     // rows: q, k, v, inner decay logits, then the output gate
  Linear decay_proj_;  // from the inner to the full decay logits
  std::optional<ShortConvolution> conv_;
  OutputNorm norm_;
  Linear o_proj_;
};

std::unique_ptr<Mixer> Make(const GlaConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_heads, 1, context.d_model, where, "num_heads");
  CheckRange(config.gate_low_rank_dim, 1, 4096, where, "gate_low_rank_dim");
  CheckRange(config.conv_size, 0, 64, where, "conv_size");
  if (!(config.gate_logit_normalizer > 0)) {
    throw ConfigError(where + "/gate_logit_normalizer", "must be positive");
  }
  if (!(config.min_log_decay <= 0)) {
    throw ConfigError(where + "/min_log_decay", "must be negative, or 0 for no bound");
  }
  const std::int64_t head_k_dim =
      ExpandedHeadDim(config.expand_k, context.d_model, config.num_heads, where, "expand_k");
  const std::int64_t head_v_dim =
      ExpandedHeadDim(config.expand_v, context.d_model, config.num_heads, where, "expand_v");
  return std::make_unique<Gla>(config, head_k_dim, head_v_dim, context.d_model, scope);
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
