// Queries, keys and values of softmax attention: one projection in grouped heads, norm of queries
// and keys, positions, sinks. What is left to a mixer is which keys a query sees, and the state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "kernels/attention/softmax_attention/softmax_attention.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"
#include "models/mixer.h"
#include "models/parameters.h"

namespace mixerbench::models {

enum class PositionEncoding {
  kNone,
  kRope,   // queries and keys turn with their position
  kAlibi,  // scores fall with the distance, by a slope of each head
};

enum class QkNorm {
  kNone,
  kSharedWeight,   // RMSNorm of each head with one weight for all heads
  kWeightPerHead,  // each head its own
};

// Sizes, already checked.
struct AttentionLayout {
  std::int64_t num_heads = 1;
  std::int64_t num_kv_heads = 1;  // divides num_heads
  std::int64_t head_dim = 0;
  PositionEncoding position = PositionEncoding::kNone;
  std::int64_t rotary_dim = 0;  // channels of a head that rope turns
  QkNorm qk_norm = QkNorm::kNone;
  double norm_eps = 1e-5;
  bool qkv_bias = false;
  bool sinks = false;
  // Further columns of the projection, after q, k, v.
  std::vector<kernels::ColumnBlock> columns = {};

  std::int64_t query_dim() const { return num_heads * head_dim; }
  std::int64_t key_dim() const { return num_kv_heads * head_dim; }
};

struct AttentionTokens {
  at::Tensor q;                     // [B,T,H,D], of few queries [B,R,H,D]
  at::Tensor k;                     // [B,T,Hk,D]
  at::Tensor v;                     // [B,T,Hk,D]
  std::vector<at::Tensor> columns;  // AttentionLayout::columns
};

class AttentionHeads {
 public:
  // Parameters `qkv_proj` (rows: q, k, v, further columns), `q_norm`, `k_norm`, `sinks`.
  AttentionHeads(const AttentionLayout& layout, std::int64_t d_model, const ParameterScope& scope);

  // Whether so few outputs of each sequence are wanted, and no tokens come before these, that the
  // queries of options.scored alone enter the core.
  bool FewQueries(const MixerOptions& options, std::int64_t seq_len, std::int64_t num_before) const;

  // Without norm and rotation; x [B,T,D].
  AttentionTokens Project(const at::Tensor& x, const MixerOptions& options,
                          bool scored_queries) const;
  // Norm and rotation of queries and keys, the first of which stands at `first_position`.
  void Place(AttentionTokens& tokens, std::int64_t first_position, const MixerOptions& options,
             bool scored_queries) const;
  // The rest of the arguments that this block decides: slopes, sinks, scored queries.
  void SetScores(kernels::SoftmaxAttentionArgs& args, const MixerOptions& options,
                 bool scored_queries) const;

  // Keys or values [batch,num_tokens,Hk,D] of zeros.
  at::Tensor Empty(std::int64_t batch_size, std::int64_t num_tokens) const;

  const AttentionLayout& layout() const { return layout_; }
  const at::Tensor& weight() const { return qkv_proj_.weight(); }

 private:
  at::Tensor Normed(const at::Tensor& x, const at::Tensor& weight) const;

  AttentionLayout layout_;
  Linear qkv_proj_;
  at::Tensor q_norm_;  // [D] or [H,D]; undefined without
  at::Tensor k_norm_;  // [D] or [Hk,D]
  at::Tensor sinks_;   // [H]; undefined without
  at::Tensor slopes_;  // [H]; undefined without
};

// Slopes of H heads: 2^(-8h/H), h = 1..H, for a power of two; else those of the next lower power P,
// and every other one of 2 P. [H] in float64. Source: arXiv 2108.12409.
at::Tensor AlibiSlopes(std::int64_t num_heads);

// The options that attention mixers have in common, of those that Config has.
template <typename Config>
Fields<Config> AttentionFields() {
  Fields<Config> fields;
  fields.Add("num_heads", &Config::num_heads, "query heads; divides d_model")
      .Add("num_kv_heads", &Config::num_kv_heads,
           "key and value heads, shared by groups of query heads; 0: num_heads")
      .Add("position", &Config::position,
           "rope turns queries and keys by position, alibi lowers scores with the distance")
      .Add("rotary_dim", &Config::rotary_dim, "channels of a head that rope turns, even; 0: all")
      .Add("qk_norm", &Config::qk_norm, "RMSNorm of each query and key head, before rope")
      .Add("norm_eps", &Config::norm_eps, "eps of the norms");
  if constexpr (requires(Config c) { c.sinks; }) {
    fields.Add("sinks", &Config::sinks,
               "one learned score a head in the softmax that belongs to no token");
  }
  if constexpr (requires(Config c) { c.qkv_bias; }) {
    fields.Add("qkv_bias", &Config::qkv_bias, "bias of the q, k, v projection")
        .Add("out_bias", &Config::out_bias, "bias of the output projection");
  }
  fields.Add("dropout", &Config::dropout, "of attention weights, in training");
  return fields;
}

// The layout that these options decide, with one norm weight for all heads. Throws ConfigError
// below `where`.
template <typename Config>
AttentionLayout AttentionLayoutOf(const Config& config, std::int64_t d_model,
                                  const std::string& where) {
  AttentionLayout layout{.num_heads = config.num_heads, .position = config.position};
  layout.head_dim = DivideExactly(d_model, config.num_heads, where, "num_heads", "d_model");
  layout.num_kv_heads = config.num_kv_heads == 0 ? config.num_heads : config.num_kv_heads;
  DivideExactly(config.num_heads, layout.num_kv_heads, where, "num_kv_heads", "num_heads");
  layout.rotary_dim = config.rotary_dim == 0 ? layout.head_dim : config.rotary_dim;
  if (config.position == PositionEncoding::kRope) {
    CheckRange(layout.rotary_dim, 2, layout.head_dim, where, "rotary_dim");
    DivideExactly(layout.rotary_dim, 2, where, "rotary_dim", "rotary_dim");
  } else if (config.rotary_dim != 0) {
    throw ConfigError(where + "/rotary_dim", "is of position rope");
  }
  layout.qk_norm = config.qk_norm ? QkNorm::kSharedWeight : QkNorm::kNone;
  CheckEps(config.norm_eps, where, "norm_eps");
  layout.norm_eps = config.norm_eps;
  if constexpr (requires { config.sinks; }) layout.sinks = config.sinks;
  if constexpr (requires { config.qkv_bias; }) layout.qkv_bias = config.qkv_bias;
  CheckDropout(config.dropout, where, "dropout");
  return layout;
}

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::PositionEncoding> {
  using E = mixerbench::models::PositionEncoding;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kNone, "none"}, {E::kRope, "rope"}, {E::kAlibi, "alibi"}};
};
