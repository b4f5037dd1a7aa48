// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/attention_heads.h"

#include <bit>
#include <cmath>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>

#include "kernels/attention/softmax_attention/softmax_attention_plan.h"
#include "kernels/layout/rows.h"
#include "kernels/rope/rotary.h"
#include "models/blocks/dtype.h"

namespace mixerbench::models {
namespace {

std::int64_t ProjectionRows(const AttentionLayout& layout) {
  std::int64_t rows = layout.query_dim() + 2 * layout.key_dim();
  for (const auto& block : layout.columns) rows += block.size;
  return rows;
}

at::Tensor NormWeight(const ParameterScope& scope, QkNorm norm, std::int64_t num_heads,
                      std::int64_t head_dim) {
  if (norm == QkNorm::kNone) return {};
  const std::vector<std::int64_t> shape = norm == QkNorm::kSharedWeight
                                              ? std::vector<std::int64_t>{head_dim}
                                              : std::vector<std::int64_t>{num_heads, head_dim};
  return scope.Add("weight", shape, ParameterRole::kNormWeight, Init::Constant(1));
}

}  // namespace

at::Tensor AlibiSlopes(std::int64_t num_heads) {
  const auto lower =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(num_heads)));
  const auto slope = [](std::int64_t h, std::int64_t of) {
    return std::exp2(-8 * static_cast<double>(h) / static_cast<double>(of));
  };
  const at::Tensor slopes = at::empty({num_heads}, at::kDouble);
  auto* values = slopes.mutable_data_ptr<double>();
  for (std::int64_t h = 0; h < num_heads; ++h) {
    values[h] = h < lower ? slope(h + 1, lower) : slope(2 * (h - lower) + 1, 2 * lower);
  }
  return slopes;
}

AttentionHeads::AttentionHeads(const AttentionLayout& layout, std::int64_t d_model,
                               const ParameterScope& scope)
    : layout_(layout),
      qkv_proj_(scope.Child("qkv_proj"), d_model, ProjectionRows(layout), layout.qkv_bias),
      q_norm_(NormWeight(scope.Child("q_norm"), layout.qk_norm, layout.num_heads, layout.head_dim)),
      k_norm_(
          NormWeight(scope.Child("k_norm"), layout.qk_norm, layout.num_kv_heads, layout.head_dim)) {
  if (layout.sinks) {
    sinks_ = scope.AddSpecial("sinks", {layout.num_heads}, Init::Constant(0));
  }
  if (layout.position == PositionEncoding::kAlibi) {
    slopes_ = AlibiSlopes(layout.num_heads).to(scope.special_options());
  }
}

bool AttentionHeads::FewQueries(const MixerOptions& options, std::int64_t seq_len,
                                std::int64_t num_before) const {
  return options.scored != nullptr && num_before == 0 &&
         kernels::softmax_attention::SupportsScoredPositions(options.scored->per_sequence, seq_len,
                                                             layout_.head_dim);
}

AttentionTokens AttentionHeads::Project(const at::Tensor& x, const MixerOptions& options,
                                        bool scored_queries) const {
  const bool turns = layout_.position == PositionEncoding::kRope;
  std::vector<kernels::ColumnBlock> blocks = {
      {layout_.query_dim(), /*only_scored=*/scored_queries && !turns},
      layout_.key_dim(),
      layout_.key_dim()};
  blocks.insert(blocks.end(), layout_.columns.begin(), layout_.columns.end());
  auto columns = qkv_proj_.Columns(x, blocks, options.scored, options.path);
  AttentionTokens tokens{.q = columns[0].unflatten(-1, {layout_.num_heads, layout_.head_dim}),
                         .k = columns[1].unflatten(-1, {layout_.num_kv_heads, layout_.head_dim}),
                         .v = columns[2].unflatten(-1, {layout_.num_kv_heads, layout_.head_dim}),
                         .columns = {columns.begin() + 3, columns.end()}};
  if (scored_queries && !turns) {
    tokens.q = tokens.q.unflatten(0, {x.size(0), options.scored->per_sequence});
  }
  return tokens;
}

at::Tensor AttentionHeads::Normed(const at::Tensor& x, const at::Tensor& weight) const {
  if (!weight.defined()) return x;
  const at::Tensor used = weight.to(x.scalar_type());
  if (weight.dim() == 1) return at::rms_norm(x, weight.sizes(), used, layout_.norm_eps);
  return at::rms_norm(x, {layout_.head_dim}, {}, layout_.norm_eps) * used;
}

void AttentionHeads::Place(AttentionTokens& tokens, std::int64_t first_position,
                           const MixerOptions& options, bool scored_queries) const {
  tokens.q = Normed(tokens.q, q_norm_);
  tokens.k = Normed(tokens.k, k_norm_);
  if (layout_.position != PositionEncoding::kRope) return;
  const auto turn = [&](const at::Tensor& x) {
    return kernels::RotateHalf(x, first_position, layout_.rotary_dim, options.path);
  };
  tokens.k = turn(tokens.k);
  tokens.q = turn(tokens.q);
  if (!scored_queries) return;
  const at::Tensor chosen = kernels::GatherRows(tokens.q.flatten(2), *options.scored, options.path);
  tokens.q = chosen.view(
      {tokens.k.size(0), options.scored->per_sequence, layout_.num_heads, layout_.head_dim});
}

void AttentionHeads::SetScores(kernels::SoftmaxAttentionArgs& args, const MixerOptions& options,
                               bool scored_queries) const {
  args.slopes = slopes_;
  args.sinks = sinks_;
  if (scored_queries) args.scored = options.scored;
}

at::Tensor AttentionHeads::Empty(std::int64_t batch_size, std::int64_t num_tokens) const {
  return at::zeros({batch_size, num_tokens, layout_.num_kv_heads, layout_.head_dim},
                   weight().options().requires_grad(false));
}

}  // namespace mixerbench::models
