// The layer around the delta-rule core (K3), with or without a scalar decay: one projection, short
// convolution, normalised queries and keys, write strength, output norm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/decay.h"
#include "models/blocks/linear.h"
#include "models/blocks/matrix_heads.h"
#include "models/blocks/norms.h"
#include "models/blocks/short_convolution.h"
#include "models/mixer.h"

namespace mixerbench::models {

enum class QkActivation { kIdentity, kSilu, kRelu, kElu1 };

enum class QkNorm {
  kL2,   // x / |x|
  kSum,  // x / sum over channels: for activations that are not negative
};

// Sizes in channels, already checked.
struct DeltaRuleLayout {
  std::int64_t num_heads = 0;    // of queries and keys
  std::int64_t num_v_heads = 0;  // a multiple of num_heads: queries and keys are repeated
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;
  std::int64_t conv_size = 0;  // 0: no convolution
  QkActivation qk_activation = QkActivation::kSilu;
  QkNorm qk_norm = QkNorm::kL2;
  bool use_decay = false;
  OutputGate output_gate = OutputGate::kNone;
  bool allow_neg_eigval = false;  // write strength in (0,2) instead of (0,1)
  double norm_eps = 1e-5;
};

// The options that mixers of this layer have in common, under members of the same names.
template <typename Config>
Fields<Config> DeltaRuleFields() {
  return Fields<Config>()
      .Add("num_heads", &Config::num_heads, "heads of queries and keys")
      .Add("expand_k", &Config::expand_k, "key channels per channel of d_model")
      .Add("conv_size", &Config::conv_size, "width of the convolution; 0: none")
      .Add("allow_neg_eigval", &Config::allow_neg_eigval,
           "write strength in (0,2) instead of (0,1)")
      .Add("use_output_gate", &Config::use_output_gate,
           "silu gate after the norm of each head's output")
      .Add("norm_eps", &Config::norm_eps, "eps of that norm");
}

// The part of the layout that these options decide, with as many value heads as key heads.
// Throws ConfigError below `where`.
template <typename Config>
DeltaRuleLayout SharedDeltaRuleLayout(const Config& config, std::int64_t d_model,
                                      const std::string& where) {
  CheckRange(config.num_heads, 1, d_model, where, "num_heads");
  CheckRange(config.conv_size, 0, 64, where, "conv_size");
  CheckEps(config.norm_eps, where, "norm_eps");
  DeltaRuleLayout layout;
  layout.num_heads = config.num_heads;
  layout.num_v_heads = config.num_heads;
  layout.head_k_dim =
      ExpandedHeadDim(config.expand_k, d_model, config.num_heads, where, "expand_k");
  layout.conv_size = config.conv_size;
  layout.allow_neg_eigval = config.allow_neg_eigval;
  layout.output_gate = config.use_output_gate ? OutputGate::kSilu : OutputGate::kNone;
  layout.norm_eps = config.norm_eps;
  return layout;
}

class DeltaRuleMixer final : public Mixer {
 public:
  DeltaRuleMixer(const DeltaRuleLayout& layout, std::int64_t d_model, const ParameterScope& scope);

  MixerOutput Forward(const at::Tensor& x, const ForwardOptions& options) const override;
  State InitialState(std::int64_t batch_size) const override;
  StateSize state_size(std::int64_t num_tokens) const override;

 private:
  MatrixHeads StateHeads() const {
    return {layout_.num_v_heads, layout_.head_k_dim, layout_.head_v_dim};
  }
  std::int64_t key_dim() const { return layout_.num_heads * layout_.head_k_dim; }
  std::int64_t value_dim() const { return layout_.num_v_heads * layout_.head_v_dim; }
  struct Heads {
    at::Tensor q, k;  // [B,T,Hv,K]
    at::Tensor v;     // [B,T,Hv,V]
  };
  // Columns of the projection: q, k, v, after the convolution if there is one, whose history is
  // kept; logits of beta and decay; the output gate.
  std::vector<at::Tensor> Project(const at::Tensor& x, const ForwardOptions& options,
                                  State& final_state) const;
  bool NormalisesInConvolution() const;  // q and k
  Heads ComputeHeads(const at::Tensor& projected,
                     ExecutionPath path) const;                       // from q, k, v of Project
  Heads SplitHeads(const at::Tensor& qkv, ExecutionPath path) const;  // q and k still with H heads
  at::Tensor NormaliseKeys(const at::Tensor& qk) const;

  DeltaRuleLayout layout_;
  Linear in_proj_;  // rows: q, k, v, beta, then decay logits, then the output gate
  std::optional<ShortConvolution> conv_;
  std::optional<SoftplusDecay> decay_;
  OutputNorm norm_;
  Linear o_proj_;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::QkActivation> {
  using E = mixerbench::models::QkActivation;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kIdentity, "identity"}, {E::kSilu, "silu"}, {E::kRelu, "relu"}, {E::kElu1, "elu1"}};
};

template <>
struct mixerbench::EnumNames<mixerbench::models::QkNorm> {
  using E = mixerbench::models::QkNorm;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kL2, "l2"}, {E::kSum, "sum"}};
};
