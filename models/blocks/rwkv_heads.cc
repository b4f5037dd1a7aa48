// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/rwkv_heads.h"

#include "models/blocks/config_checks.h"

namespace mixerbench::models {

MatrixLayout RwkvLayout(std::int64_t num_heads, double norm_eps, std::int64_t d_model,
                        const std::string& where) {
  constexpr double kOutputDivisor = 8;
  CheckEps(norm_eps, where, "norm_eps");
  MatrixLayout layout{.num_heads = num_heads, .qk_heads = num_heads};
  layout.head_k_dim = layout.head_v_dim =
      DivideExactly(d_model, num_heads, where, "num_heads", "d_model");
  layout.output.norm = OutputNormKind::kGroup;
  layout.output.gate = OutputGate::kSilu;
  // The norm of o / 8 is that of o with a larger eps.
  layout.output.eps = norm_eps * kOutputDivisor * kOutputDivisor;
  return layout;
}

RwkvHeads::RwkvHeads(std::int64_t num_heads, const MixerContext& context,
                     const ParameterScope& scope)
    : num_heads_(num_heads),
      r_proj_(scope.Child("r_proj"), context.d_model, context.d_model, /*bias=*/false),
      k_proj_(scope.Child("k_proj"), context.d_model, context.d_model, /*bias=*/false),
      v_proj_(scope.Child("v_proj"), context.d_model, context.d_model, /*bias=*/false),
      g_proj_(scope.Child("g_proj"), context.d_model, context.d_model, /*bias=*/false) {}

MatrixColumns RwkvHeads::operator()(const at::Tensor& of_r, const at::Tensor& of_k,
                                    const at::Tensor& of_v, const at::Tensor& of_gate,
                                    const MixerOptions& options) const {
  const auto heads = [&](const at::Tensor& y) { return y.unflatten(-1, {num_heads_, -1}); };
  const auto gate = g_proj_.Columns(of_gate, {{of_gate.size(-1), /*only_scored=*/true}},
                                    options.scored, options.path);
  return {.q = heads(r_proj_(of_r, options.path)),
          .k = heads(k_proj_(of_k, options.path)),
          .v = heads(v_proj_(of_v, options.path)),
          .output_gate = {gate[0], options.scored != nullptr}};
}

}  // namespace mixerbench::models
