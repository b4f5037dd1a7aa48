// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/attention/attention.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "kernels/fused/columns.h"
#include "kernels/fused/rotary.h"
#include "kernels/fused/rows.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "kernels/softmax_attention/softmax_attention_plan.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::attention {
namespace {

const Fields<AttentionConfig>& ConfigFields() {
  static const auto fields =
      Fields<AttentionConfig>()
          .Add("num_heads", &AttentionConfig::num_heads, "query heads; divides d_model")
          .Add("num_kv_heads", &AttentionConfig::num_kv_heads,
               "key and value heads, shared by groups of query heads; 0: num_heads")
          .Add("position", &AttentionConfig::position, "rotation of queries and keys by position")
          .Add("rotary_dim", &AttentionConfig::rotary_dim,
               "channels of a head that rope turns, even; 0: all")
          .Add("qkv_bias", &AttentionConfig::qkv_bias, "bias of the q, k, v projection")
          .Add("out_bias", &AttentionConfig::out_bias, "bias of the output projection")
          .Add("dropout", &AttentionConfig::dropout, "of attention weights, in training");
  return fields;
}

class Attention final : public Mixer {
 public:
  // `config` with every 0 replaced by what it stands for.
  Attention(const AttentionConfig& config, const MixerContext& context, const ParameterScope& scope)
      : config_(config),
        head_dim_(context.d_model / config.num_heads),
        qkv_proj_(scope.Child("qkv_proj"), context.d_model,
                  (config.num_heads + 2 * config.num_kv_heads) * head_dim_, config.qkv_bias) {
    if (!context.output_projection) return;
    out_proj_.emplace(scope.Child("out_proj"), context.d_model, context.d_model, config.out_bias,
                      ParameterRole::kResidualOutputWeight);
  }

  State InitialState(std::int64_t batch_size) const override {
    const at::Tensor empty = at::zeros({batch_size, 0, config_.num_kv_heads, head_dim_},
                                       qkv_proj_.weight().options().requires_grad(false));
    return Cache(empty, empty);
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const at::Tensor& x = inputs.x;
    const at::Tensor old_k = Find(options.initial_state, "k");
    const std::int64_t first_position = old_k.defined() ? old_k.size(1) : 0;
    const bool few_queries = first_position == 0 && FewQueriesPay(options, x.size(1));

    const auto columns = Project(x, options, first_position, few_queries);
    at::Tensor k = columns[1].unflatten(-1, {config_.num_kv_heads, head_dim_});
    at::Tensor v = columns[2].unflatten(-1, {config_.num_kv_heads, head_dim_});
    if (first_position > 0) {
      k = at::cat({old_k.to(k.scalar_type()), k}, 1);
      v = at::cat({Find(options.initial_state, "v").to(v.scalar_type()), v}, 1);
    }

    kernels::SoftmaxAttentionArgs args;
    args.q = columns[0].unflatten(-1, {config_.num_heads, head_dim_});
    args.k = k;
    args.v = v;
    if (options.generator) {
      args.dropout_p = config_.dropout;
      args.generator = options.generator;
    }
    if (few_queries) {  // [M,H,D] so far
      args.q = args.q.unflatten(0, {x.size(0), options.rows->rows_per_sequence});
      args.rows = options.rows;
    }
    at::Tensor o = kernels::SoftmaxAttention(args, options.path).flatten(2);
    if (few_queries) o = o.flatten(0, 1);

    Mixed mixed{.tokens = {{o, /*selected=*/few_queries}}};
    if (options.want_final_state) mixed.final_state = Cache(k, v);
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor& o = mixed.tokens[0].value;
    return out_proj_ ? (*out_proj_)(o, options.path) : o;
  }

 private:
  static State Cache(const at::Tensor& k, const at::Tensor& v) {
    return {.tensors = {{"k", {k, StateKind::kCache}}, {"v", {v, StateKind::kCache}}}};
  }

  // Queries, keys and values side by side, turned where the position asks for it; queries of
  // options.rows alone, [M,H*D], with `few_queries`.
  std::vector<at::Tensor> Project(const at::Tensor& x, const MixerOptions& options,
                                  std::int64_t first_position, bool few_queries) const {
    const std::int64_t query_dim = config_.num_heads * head_dim_;
    const std::int64_t key_dim = config_.num_kv_heads * head_dim_;
    if (config_.position != PositionEncoding::kRope) {
      return qkv_proj_.Columns(x, {{query_dim, /*only_at_rows=*/few_queries}, key_dim, key_dim},
                               few_queries ? options.rows : nullptr, options.path);
    }
    // Queries and keys turn alike.
    const auto columns =
        qkv_proj_.Columns(x, {query_dim + key_dim, key_dim}, /*rows=*/nullptr, options.path);
    const at::Tensor turned =
        kernels::fused::RotateHalf(columns[0].unflatten(-1, {-1, head_dim_}), first_position,
                                   config_.rotary_dim, options.path);
    auto parts =
        kernels::fused::SplitColumns(turned.flatten(2), {query_dim, key_dim}, options.path);
    if (few_queries) {
      parts[0] = kernels::fused::GatherRows(parts[0], *options.rows, options.path);
    }
    parts.push_back(columns[1]);
    return parts;
  }

  // Whether so few outputs of each sequence are wanted that only their queries are formed.
  bool FewQueriesPay(const MixerOptions& options, std::int64_t seq_len) const {
    return options.rows != nullptr && kernels::softmax_attention::PrefersChosenRows(
                                          options.rows->rows_per_sequence, seq_len, head_dim_);
  }

  AttentionConfig config_;
  std::int64_t head_dim_;
  Linear qkv_proj_;  // rows: q, k, v
  std::optional<Linear> out_proj_;
};

std::unique_ptr<Mixer> Make(AttentionConfig config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const std::int64_t head_dim =
      DivideExactly(context.d_model, config.num_heads, where, "num_heads", "d_model");
  if (config.num_kv_heads == 0) config.num_kv_heads = config.num_heads;
  DivideExactly(config.num_heads, config.num_kv_heads, where, "num_kv_heads", "num_heads");
  if (config.rotary_dim == 0) config.rotary_dim = head_dim;
  if (config.position == PositionEncoding::kRope) {
    CheckRange(config.rotary_dim, 2, head_dim, where, "rotary_dim");
    DivideExactly(config.rotary_dim, 2, where, "rotary_dim", "rotary_dim");
  }
  CheckDropout(config.dropout, where, "dropout");
  return std::make_unique<Attention>(config, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "softmax attention with a growing key-value cache";
  entry.source = "arXiv 1706.03762; grouped heads 2305.13245; rotary positions 2104.09864";
  entry.test_configs = {
      Object{{"position", "rope"}, {"num_kv_heads", 1}, {"qkv_bias", false}, {"out_bias", false}},
      Object{{"num_heads", 4},
             {"num_kv_heads", 2},
             {"position", "rope"},
             {"rotary_dim", 2},
             {"dropout", 0.25}},
  };
  registry.Add("attention", std::move(entry));
}

}  // namespace mixerbench::models::attention
