// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/linear_attention/linear_attention.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>

#include "kernels/linear_attention/simple_gla/simple_gla.h"
#include "models/blocks/dtype.h"
#include "models/blocks/matrix_state_mixer.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::linear_attention {
namespace {

constexpr double kFeatureSumEps = 1e-4;

const Fields<LinearAttentionConfig>& ConfigFields() {
  using Config = LinearAttentionConfig;
  static const auto fields =
      MatrixFields<Config>()
          .Add("head_k_dim", &Config::head_k_dim,
               "query and key channels of a head before the feature map; 0: d_model / num_heads")
          .Add("expand_v", &Config::expand_v, "value channels per channel of d_model")
          .Add("feature_map", &Config::feature_map, "applied to queries and keys")
          .Add("norm_q", &Config::norm_q, "divide query features by their sum")
          .Add("norm_k", &Config::norm_k, "divide key features by their sum")
          .Add("use_normalizer", &Config::use_normalizer, "divide by the sum of the weights")
          .Add("normalizer_eps", &Config::normalizer_eps, "added to that sum")
          .Add("scale", &Config::scale, "of the weights; 0: (number of features)^-0.5")
          .Add("use_output_norm", &Config::use_output_norm, "RMSNorm of each head's output");
  return fields;
}

at::Tensor DividedBySum(const at::Tensor& features) {
  const at::Tensor wide = AtLeastFloat(features);
  return (wide / (wide.sum(-1, /*keepdim=*/true) + kFeatureSumEps)).to(features.scalar_type());
}

// The core of features by values. A value column of ones makes the state carry the sum of the keys
// and the output its product with the query; the quotient is not formed in bf16.
MatrixCore Normalised(MatrixCore core, double eps) {
  core.states[0].second.back() += 1;
  core.run = [run = core.run, eps](kernels::RecurrenceArgs args, const MixerOptions& options,
                                   Mixed& mixed) {
    const std::int64_t head_v_dim = args.v.size(-1);
    const at::ScalarType dtype = args.v.scalar_type();
    args.q = AtLeastFloat(args.q);
    args.k = AtLeastFloat(args.k);
    args.v = at::constant_pad_nd(AtLeastFloat(args.v), {0, 1}, 1);
    const at::Tensor o = run(std::move(args), options, mixed);
    return (o.narrow(-1, 0, head_v_dim) / (o.narrow(-1, head_v_dim, 1) + eps)).to(dtype);
  };
  return core;
}

std::unique_ptr<Mixer> Make(const LinearAttentionConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const std::int64_t head_k_dim =
      config.head_k_dim != 0
          ? config.head_k_dim
          : DivideExactly(context.d_model, config.num_heads, where, "num_heads", "d_model");
  CheckRange(head_k_dim, 1, 4096, where, "head_k_dim");
  MatrixLayout layout = LayoutOf(config, context.d_model, where);
  layout.head_k_dim = head_k_dim;
  CheckEps(config.normalizer_eps, where, "normalizer_eps");
  layout.output.norm = config.use_output_norm ? OutputNormKind::kPerHead : OutputNormKind::kNone;
  const FeatureMap map_q(config.feature_map, layout.head_k_dim, scope.Child("feature_map_q"));
  const FeatureMap map_k(config.feature_map, layout.head_k_dim, scope.Child("feature_map_k"));
  const auto features = [=](const std::vector<at::Tensor>&, const MixerOptions& options,
                            kernels::RecurrenceArgs& args) {
    args.scale = config.scale;
    args.q = map_q(args.q, options.path);
    args.k = map_k(args.k, options.path);
    if (config.norm_q) args.q = DividedBySum(args.q);
    if (config.norm_k) args.k = DividedBySum(args.k);
  };
  MatrixLayout of_features = layout;
  of_features.head_k_dim = map_k.output_dim();
  MatrixCore core = OneState(kernels::SimpleGla, of_features);
  if (config.use_normalizer) core = Normalised(std::move(core), config.normalizer_eps);
  return std::make_unique<MatrixStateMixer>(layout, features, std::move(core), context, scope);
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
