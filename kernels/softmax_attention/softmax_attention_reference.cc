// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>

#include "kernels/softmax_attention/prepare.h"
#include "kernels/softmax_attention/softmax_attention.h"

namespace mixerbench::kernels {

at::Tensor ReferenceSoftmaxAttention(const SoftmaxAttentionArgs& args) {
  const auto sizes = softmax_attention::Prepare(args);
  const auto q = args.q.to(sizes.compute_dtype) * sizes.scale;
  const auto k = softmax_attention::RepeatHeads(args.k, sizes).to(sizes.compute_dtype);
  const auto v = softmax_attention::RepeatHeads(args.v, sizes).to(sizes.compute_dtype);
  const auto dropout = softmax_attention::DropoutFactors(args, sizes);  // [B,H,T,S]

  at::Tensor hidden;  // [B,1,R,S]
  if (args.rows != nullptr) hidden = softmax_attention::KeysAfterRows(args, sizes);

  std::vector<at::Tensor> o;
  for (std::int64_t i = 0; i < sizes.num_queries; ++i) {
    // Chosen queries stand at different tokens of their sequences: a mask hides what is later.
    const std::int64_t num_visible =
        hidden.defined() ? sizes.num_keys : sizes.num_keys - sizes.num_queries + i + 1;
    const auto k_seen = k.narrow(1, 0, num_visible);
    auto v_seen = v.narrow(1, 0, num_visible);
    auto scores = at::einsum("bhk,bjhk->bhj", {q.select(1, i), k_seen});
    if (hidden.defined()) {
      const auto later = hidden.select(2, i);  // [B,1,S]
      scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
      v_seen = v_seen.masked_fill(later.transpose(1, 2).unsqueeze(-1), 0);  // 0 NaN is NaN
    }
    auto weights = at::softmax(scores, -1);
    if (dropout.defined()) weights = weights * dropout.select(2, i).narrow(-1, 0, num_visible);
    o.push_back(at::einsum("bhj,bjhv->bhv", {weights, v_seen}));
  }
  return at::stack(o, 1).to(args.v.scalar_type());
}

}  // namespace mixerbench::kernels
