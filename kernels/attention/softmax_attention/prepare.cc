// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/prepare.h"

#include <cmath>
#include <initializer_list>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/attention/softmax_attention/attention_dropout.h"
#include "kernels/attention/softmax_attention/softmax_attention_cuda.h"
#include "kernels/runtime/differentiable.h"
#include "kernels/runtime/plan.h"
#include "kernels/runtime/shape.h"

namespace mixerbench::kernels::softmax_attention {
namespace {

// One of the tensors that change the weights, which need not be there.
void RequireTerm(const at::Tensor& term, std::initializer_list<std::int64_t> shape,
                 const Prepared& sizes, const at::Tensor& q, std::string_view name) {
  if (!term.defined()) return;
  RequireShape(term, shape, name);
  Require(term.scalar_type() == sizes.compute_dtype && term.device() == q.device(),
          std::string(name) + " is of dtype fp32, fp64 for fp64 inputs, on the device of q");
}

// The tokens of the scored queries, [B,R].
at::Tensor RowPositions(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  const at::Tensor& rows = args.scored->positions;
  const at::Tensor first = at::arange(sizes.batch_size, rows.options()) * sizes.num_keys;
  const at::Tensor position = rows.view({sizes.batch_size, sizes.num_queries}) - first.unsqueeze(1);
  return position.masked_fill(position.lt(0).logical_or(position.ge(sizes.num_keys)), 0);
}

}  // namespace

Prepared Prepare(const SoftmaxAttentionArgs& args) {
  Require(args.q.defined() && args.q.dim() == 4, "q must be [B,T,H,K]");
  Require(args.k.defined() && args.k.dim() == 4, "k must be [B,S,Hk,K]");
  Require(args.v.defined() && args.v.dim() == 4, "v must be [B,S,Hk,V]");
  Prepared p;
  p.batch_size = args.q.size(0);
  p.num_queries = args.q.size(1);
  p.num_heads = args.q.size(2);
  p.head_k_dim = args.q.size(3);
  p.num_keys = args.k.size(1);
  p.num_kv_heads = args.k.size(2);
  p.head_v_dim = args.v.size(3);
  p.compute_dtype = args.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  p.scale = args.scale != 0 ? args.scale : 1 / std::sqrt(static_cast<double>(p.head_k_dim));

  Require(args.q.numel() > 0 && args.k.numel() > 0 && args.v.numel() > 0,
          "every axis of q, k and v needs at least one element");
  RequireShape(args.k, {p.batch_size, p.num_keys, p.num_kv_heads, p.head_k_dim}, "k");
  RequireShape(args.v, {p.batch_size, p.num_keys, p.num_kv_heads, p.head_v_dim}, "v");
  if (args.scored == nullptr) {
    Require(p.num_keys >= p.num_queries, "there must be at least as many keys as queries");
  } else {
    const at::Tensor& rows = args.scored->positions;
    Require(
        args.scored->per_sequence == p.num_queries &&
            rows.numel() == p.batch_size * p.num_queries && rows.scalar_type() == at::kLong &&
            rows.is_contiguous(),
        "scored positions must be dense int64, one for each query and in order of the sequences");
  }
  Require(p.num_heads % p.num_kv_heads == 0, "H must be a multiple of Hk");
  Require(args.q.is_floating_point() && args.k.scalar_type() == args.q.scalar_type() &&
              args.v.scalar_type() == args.q.scalar_type(),
          "q, k and v must share one floating dtype");
  Require(args.k.device() == args.q.device() && args.v.device() == args.q.device(),
          "q, k and v must share one device");
  Require(args.dropout_p >= 0 && args.dropout_p < 1, "dropout_p must be in [0,1)");
  Require(args.dropout_p == 0 || args.generator.has_value(), "dropout needs a generator");
  Require(args.window >= 0, "the window is a number of keys");
  RequireTerm(args.log_decay, {p.batch_size, p.num_keys, p.num_heads}, p, args.q, "log_decay");
  RequireTerm(args.slopes, {p.num_heads}, p, args.q, "slopes");
  RequireTerm(args.sinks, {p.num_heads}, p, args.q, "sinks");
  Require(!args.log_decay.defined() || !args.sinks.defined(), "scores that decay have no sink");
  return p;
}

void RecordAttention(const SoftmaxAttentionArgs& args, std::string_view forward,
                     std::string_view backward, std::string_view reason) {
  const bool needs_backward = NeedsBackward({args.q, args.k, args.v, args.log_decay, args.sinks});
  RecordPlan("softmax_attention", forward, needs_backward ? backward : std::string_view(), reason);
}

std::string ExtraTerm(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  if (args.window > 0 && args.window < sizes.num_keys) return "a window";
  if (args.log_decay.defined()) return "a log decay";
  if (args.slopes.defined()) return "slopes";
  return args.sinks.defined() ? "sinks" : "";
}

at::Tensor RepeatHeads(const at::Tensor& x, const Prepared& sizes) {
  const std::int64_t group_size = sizes.num_heads / sizes.num_kv_heads;
  if (group_size == 1) return x;
  return x.unsqueeze(3).expand({-1, -1, -1, group_size, -1}).flatten(2, 3);
}

at::Tensor DrawDropoutSeed(const SoftmaxAttentionArgs& args) {
  return args.generator->Next(args.q.device());
}

at::Tensor QueryPositions(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  if (args.scored != nullptr) return RowPositions(args, sizes);
  return at::arange(sizes.num_keys - sizes.num_queries, sizes.num_keys,
                    args.q.options().dtype(at::kLong).requires_grad(false));
}

at::Tensor HiddenKeys(const at::Tensor& positions, const at::Tensor& keys, std::int64_t window) {
  const at::Tensor later = keys.gt(positions);
  return window > 0 ? later.logical_or_(keys.le(positions - window)) : later;
}

at::Tensor AtQueries(const at::Tensor& x, const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  if (args.scored == nullptr) {
    return x.narrow(1, sizes.num_keys - sizes.num_queries, sizes.num_queries);
  }
  return x.gather(1, RowPositions(args, sizes).unsqueeze(-1).expand({-1, -1, x.size(2)}));
}

at::Tensor DropoutFactors(const SoftmaxAttentionArgs& args, const Prepared& sizes) {
  if (args.dropout_p == 0) return {};
  const at::Tensor seed = DrawDropoutSeed(args);
  const at::Tensor kept =
      at::empty({sizes.batch_size, sizes.num_heads, sizes.num_queries, sizes.num_keys},
                seed.options().dtype(at::kFloat));
  at::Tensor positions;  // [B,H,R]
  if (args.scored != nullptr) {
    positions = RowPositions(args, sizes).unsqueeze(1).repeat({1, sizes.num_heads, 1});
  }
  DropoutMask mask = {
      .rule = MakeDropoutRule(args.dropout_p),
      .seed = seed.const_data_ptr<std::int64_t>(),
      .kept = kept.mutable_data_ptr<float>(),
      .positions = positions.defined() ? positions.const_data_ptr<std::int64_t>() : nullptr,
      .num_rows = sizes.batch_size * sizes.num_heads,
      .num_queries = sizes.num_queries,
      .num_keys = sizes.num_keys};
  if (kept.is_cuda()) {
    FillOnCuda(mask, kept);
  } else {
    for (std::int64_t index = 0; index < mask.num_groups(); ++index) FillGroup(mask, index);
  }
  return kept.to(sizes.compute_dtype).div_(KeptShare(mask.rule));
}

}  // namespace mixerbench::kernels::softmax_attention
