// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>

#include "kernels/attention/softmax_attention/prepare.h"
#include "kernels/attention/softmax_attention/softmax_attention.h"

namespace mixerbench::kernels {
namespace {

// The sums of log decays [B,N,H] after each token up to the last: [B,H,N]. Sums, not differences of
// sums: -infinity stays what it is.
at::Tensor DecayToLast(const at::Tensor& log_decay) {
  const auto after = log_decay.slice(1, 1).flip(1).cumsum(1).flip(1);
  return at::constant_pad_nd(after, {0, 0, 0, 1}).transpose(1, 2);
}

}  // namespace

at::Tensor ReferenceSoftmaxAttention(const SoftmaxAttentionArgs& args) {
  const auto sizes = softmax_attention::Prepare(args);
  const auto q = args.q.to(sizes.compute_dtype) * sizes.scale;
  const auto k = softmax_attention::RepeatHeads(args.k, sizes).to(sizes.compute_dtype);
  const auto v = softmax_attention::RepeatHeads(args.v, sizes).to(sizes.compute_dtype);
  const auto dropout = softmax_attention::DropoutFactors(args, sizes);  // [B,H,T,S]
  const auto positions = softmax_attention::QueryPositions(args, sizes);
  const auto keys = at::arange(sizes.num_keys, positions.options());

  std::vector<at::Tensor> o;
  for (std::int64_t i = 0; i < sizes.num_queries; ++i) {
    // The keys first..end-1. Scored queries stand at different tokens of their sequences: for them
    // these are all keys, and a mask hides some.
    std::int64_t first = 0;
    std::int64_t end = sizes.num_keys;
    at::Tensor hidden;    // [B,N]
    at::Tensor position;  // [], of scored queries [B,1]
    if (args.scored != nullptr) {
      position = positions.narrow(1, i, 1);
      hidden = softmax_attention::HiddenKeys(position, keys, args.window);
    } else {
      position = positions[i];
      end = sizes.num_keys - sizes.num_queries + i + 1;
      if (args.window > 0) first = std::max<std::int64_t>(0, end - args.window);
    }
    const auto seen = [&](const at::Tensor& x) { return x.slice(1, first, end); };
    auto v_seen = seen(v);
    auto scores = at::einsum("bhk,bjhk->bhj", {q.select(1, i), seen(k)});
    if (args.log_decay.defined()) {
      auto log_decay = seen(args.log_decay);
      if (hidden.defined()) {  // those after the query count for nothing
        log_decay = log_decay.masked_fill(keys.gt(position).unsqueeze(-1), 0);
      }
      scores = scores + DecayToLast(log_decay);
    }
    if (args.slopes.defined()) {
      const auto distance = position - keys.slice(0, first, end);  // [N], [B,N]
      scores = scores - args.slopes.unsqueeze(-1) * distance.unsqueeze(-2).to(scores.scalar_type());
    }
    if (hidden.defined()) {
      scores = scores.masked_fill(hidden.unsqueeze(1), -std::numeric_limits<double>::infinity());
      v_seen = v_seen.masked_fill(hidden.unsqueeze(-1).unsqueeze(-1), 0);  // 0 NaN is NaN
    }
    if (args.sinks.defined()) {
      const auto sinks = args.sinks.view({1, -1, 1}).expand({sizes.batch_size, -1, 1});
      scores = at::cat({scores, sinks}, -1);
    }
    auto weights = at::softmax(scores, -1).narrow(-1, 0, end - first);
    if (dropout.defined()) weights = weights * dropout.select(2, i).slice(-1, first, end);
    o.push_back(at::einsum("bhj,bjhv->bhv", {weights, v_seen}));
  }
  return at::stack(o, 1).to(args.v.scalar_type());
}

}  // namespace mixerbench::kernels
