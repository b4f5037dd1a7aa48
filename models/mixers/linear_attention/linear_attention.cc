// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/linear_attention/linear_attention.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>

#include "kernels/fused/columns.h"
#include "kernels/scalar_decay/scalar_decay.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/linear.h"
#include "models/blocks/matrix_heads.h"
#include "models/blocks/norms.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::linear_attention {
namespace {

constexpr double kFeatureSumEps = 1e-4;

const Fields<LinearAttentionConfig>& ConfigFields() {
  using Config = LinearAttentionConfig;
  static const auto fields =
      Fields<Config>()
          .Add("num_heads", &Config::num_heads, "heads")
          .Add("head_k_dim", &Config::head_k_dim,
               "query and key channels of a head before the feature map; 0: d_model / num_heads")
          .Add("expand_v", &Config::expand_v, "value channels per channel of d_model")
          .Add("feature_map", &Config::feature_map, "applied to queries and keys")
          .Add("norm_q", &Config::norm_q, "divide query features by their sum")
          .Add("norm_k", &Config::norm_k, "divide key features by their sum")
          .Add("use_normalizer", &Config::use_normalizer, "divide by the sum of the weights")
          .Add("normalizer_eps", &Config::normalizer_eps, "added to that sum")
          .Add("scale", &Config::scale, "of the weights; 0: (number of features)^-0.5")
          .Add("use_output_norm", &Config::use_output_norm, "RMSNorm of each head's output")
          .Add("norm_eps", &Config::norm_eps, "eps of that norm");
  return fields;
}

at::Tensor DividedBySum(const at::Tensor& features) {
  const at::Tensor wide = AtLeastFloat(features);
  return (wide / (wide.sum(-1, /*keepdim=*/true) + kFeatureSumEps)).to(features.scalar_type());
}

class LinearAttention final : public Mixer {
 public:
  LinearAttention(const LinearAttentionConfig& config, std::int64_t head_v_dim,
                  std::int64_t d_model, const ParameterScope& scope)
      : config_(config),
        head_v_dim_(head_v_dim),
        in_proj_(scope.Child("in_proj"), d_model,
                 config.num_heads * (2 * config.head_k_dim + head_v_dim), /*bias=*/false),
        map_q_(config.feature_map, config.head_k_dim, scope.Child("feature_map_q")),
        map_k_(config.feature_map, config.head_k_dim, scope.Child("feature_map_k")),
        o_proj_(scope.Child("o_proj"), config.num_heads * head_v_dim, d_model, /*bias=*/false) {
    if (config.use_output_norm) norm_.emplace(scope.Child("o_norm"), head_v_dim, config.norm_eps);
  }

  MixerOutput Forward(const at::Tensor& x, const ForwardOptions& options) const override {
    const std::int64_t batch_size = x.size(0);
    const std::int64_t seq_len = x.size(1);
    const std::int64_t num_heads = config_.num_heads;
    const std::int64_t key_dim = num_heads * config_.head_k_dim;
    const std::int64_t value_dim = num_heads * head_v_dim_;
    const auto parts =
        in_proj_.Columns(x, {key_dim, key_dim, value_dim}, /*rows=*/nullptr, options.path);

    kernels::RecurrenceArgs args;
    args.scale = config_.scale;
    args.q =
        map_q_(parts[0].view({batch_size, seq_len, num_heads, config_.head_k_dim}), options.path);
    args.k =
        map_k_(parts[1].view({batch_size, seq_len, num_heads, config_.head_k_dim}), options.path);
    args.v = parts[2].view({batch_size, seq_len, num_heads, head_v_dim_});
    if (config_.norm_q) args.q = DividedBySum(args.q);
    if (config_.norm_k) args.k = DividedBySum(args.k);
    if (options.taps != nullptr) args.k = TapWriteStrength(*options.taps, args.k, args.v);
    if (config_.use_normalizer) {
      // A value column of ones makes the state carry the sum of the keys and the output its product
      // with the query. The quotient is not formed in bf16.
      args.q = AtLeastFloat(args.q);
      args.k = AtLeastFloat(args.k);
      args.v = at::constant_pad_nd(AtLeastFloat(args.v), {0, 1}, 1);
    }
    if (options.initial_state != nullptr) args.initial_state = options.initial_state->at("state");
    kernels::RecurrenceResult result = kernels::ScalarDecay(args, options.path);
    if (options.taps != nullptr) TapState(*options.taps, result.final_state);

    at::Tensor o = result.o;
    if (options.rows != nullptr) {
      o = kernels::fused::GatherRows(o.flatten(2), *options.rows, options.path)
              .unflatten(-1, {num_heads, -1});
    }
    if (config_.use_normalizer) {
      o = (o.narrow(-1, 0, head_v_dim_) / (o.narrow(-1, head_v_dim_, 1) + config_.normalizer_eps))
              .to(x.scalar_type());
    }
    if (norm_) o = (*norm_)(o);
    MixerOutput output;
    output.y = o_proj_(o.flatten(-2), options.path);
    if (options.want_final_state) output.final_state["state"] = std::move(result.final_state);
    return output;
  }

  State InitialState(std::int64_t batch_size) const override {
    return StateHeads().InitialState(batch_size, in_proj_.weight());
  }

  StateSize state_size(std::int64_t) const override { return StateHeads().state_size(); }

 private:
  // Features by values, with a column for the normaliser.
  MatrixHeads StateHeads() const {
    return {config_.num_heads, map_k_.output_dim(), head_v_dim_ + (config_.use_normalizer ? 1 : 0)};
  }

  LinearAttentionConfig config_;
  std::int64_t head_v_dim_;
  Linear in_proj_;  // rows: q, k, v
  FeatureMap map_q_;
  FeatureMap map_k_;
  std::optional<RmsNorm> norm_;
  Linear o_proj_;
};

std::unique_ptr<Mixer> Make(LinearAttentionConfig config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  if (config.head_k_dim == 0) {
    config.head_k_dim =
        DivideExactly(context.d_model, config.num_heads, where, "num_heads", "d_model");
  }
  CheckRange(config.head_k_dim, 1, 4096, where, "head_k_dim");
  CheckEps(config.norm_eps, where, "norm_eps");
  CheckEps(config.normalizer_eps, where, "normalizer_eps");
  const std::int64_t head_v_dim =
      ExpandedHeadDim(config.expand_v, context.d_model, config.num_heads, where, "expand_v");
  return std::make_unique<LinearAttention>(config, head_v_dim, context.d_model, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "linear attention with a feature map, optionally normalised (Based: taylor)";
  entry.source = "arXiv 2006.16236; Based 2402.18668; hedgehog 2402.04347; dpfp 2102.11174";
  entry.test_configs = {
      Object{{"num_heads", 1},
             {"head_k_dim", 4},
             {"feature_map", "taylor"},
             {"scale", 1},
             {"use_normalizer", true},
             {"normalizer_eps", 1e-12},
             {"use_output_norm", false}},
      Object{{"feature_map", "elementwise_product"}, {"expand_v", 2}, {"norm_eps", 1e-6}},
      Object{{"feature_map", "hedgehog"}, {"norm_q", true}, {"norm_k", true}},
      Object{{"feature_map", "identity"}},
      Object{{"feature_map", "relu"}, {"head_k_dim", 3}},
      Object{{"feature_map", "silu"}},
      Object{{"feature_map", "t2r"}, {"use_normalizer", true}, {"normalizer_eps", 1e-2}},
      Object{{"feature_map", "dpfp"}, {"head_k_dim", 2}},
  };
  registry.Add("linear_attention", std::move(entry));
}

}  // namespace mixerbench::models::linear_attention
