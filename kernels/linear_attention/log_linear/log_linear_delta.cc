// Log-linear attention whose tokens erase: the products of log_linear_chunks.cc with matrices in
// the place of decays. Tokens of a sequence and head lie side by side, [R,S,...] with R = B H
// sequences.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/diag_embed.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/chunking.h"
#include "kernels/linear_attention/log_linear/log_linear_chunks.h"

namespace mixerbench::kernels::log_linear {
namespace {

// One block of C tokens, all blocks at once: M = R S/C. X = (I + stril(beta K K^T D))^-1.
DeltaTokens WithinDeltaBlocks(const LogLinearTokens& x, std::int64_t block) {
  const auto blocks = [&](const at::Tensor& t) { return t.reshape({-1, block, t.size(-1)}); };
  const auto q = blocks(x.q), k = blocks(x.k);
  const auto beta = x.beta.reshape({-1, block, 1});
  const auto beta_k = k * beta;
  auto scores = at::bmm(q, k.mT());      // [M,C,C]
  auto lower = at::bmm(beta_k, k.mT());  // [M,C,C]
  auto q_carried = q, k_carried = k, k_erasing = beta_k;
  auto kept = at::eye(k.size(2), k.options());  // [K,K]
  if (x.log_decay.defined()) {
    const LogDecaySums b(x.log_decay.reshape({-1, block}));
    const auto pair_decay = CausalDecay(b);
    const auto entering = at::exp(b.total()).unsqueeze(-1);
    scores = scores * pair_decay;
    lower = lower * pair_decay;
    q_carried = q * entering;
    k_carried = k * at::exp(LastToken(b) - b).unsqueeze(-1);
    k_erasing = beta_k * entering;
    kept = kept * entering.narrow(1, block - 1, 1);
  } else {
    scores = scores.tril();
  }
  // Substitution, which stays accurate for equal keys.
  const auto solved = at::linalg_solve_triangular(
      lower.tril(-1), at::cat({k_erasing, at::diag_embed(beta.squeeze(-1))}, -1), /*upper=*/false,
      /*left=*/true, /*unitriangular=*/true);
  const auto erased = solved.narrow(2, 0, k.size(2));       // X (beta e^b K), [M,C,K]
  const auto written = solved.narrow(2, k.size(2), block);  // X diag(beta), [M,C,C]
  const auto pairs = at::bmm(scores, written) * PairWeights(x, block);
  return {.o = at::bmm(pairs, blocks(x.v)),
          .reads = q_carried - at::bmm(scores, erased),
          .writes = at::bmm(written.mT(), k_carried),
          .kept = kept - at::bmm(k_carried.mT(), erased)};
}

}  // namespace

// As AmongTokens, but what a token reads of the span before its own, and what is left of its write
// after the next span, are products with what that span keeps.
DeltaTokens AmongDeltaTokens(const LogLinearTokens& tokens, std::int64_t first_place,
                             std::int64_t chunk_size, bool wants_ends) {
  const LogLinearTokens x = Padded(tokens, first_place);
  const std::int64_t num_sequences = x.q.size(0), padded = x.q.size(1);
  const std::int64_t head_k_dim = x.q.size(2), head_v_dim = x.v.size(2);
  const std::int64_t block = std::min(chunk_size, padded);
  DeltaTokens spans = WithinDeltaBlocks(x, block);
  auto o = spans.o.reshape(x.v.sizes());
  auto states = at::bmm(spans.writes.mT(), x.v.reshape({-1, block, head_v_dim}));  // [M,K,V]

  std::int64_t level = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(block)));
  for (std::int64_t length = block; length < padded; length *= 2, ++level) {
    // The second span of each pair reads the first; both make a span of the next level.
    const auto halves = [](const at::Tensor& t) {
      return t.reshape({-1, 2, t.size(1), t.size(2)}).unbind(1);
    };
    const auto pairs = halves(states), kept = halves(spans.kept), reads = halves(spans.reads);
    const auto weight = x.level_weight.select(-1, level)
                            .reshape({num_sequences, -1, 2, length, 1})
                            .select(2, 1)
                            .flatten(0, 1);
    const auto read = at::bmm(reads[1] * weight, pairs[0]);  // [R spans/2,length,V]
    o = o + at::stack({at::zeros_like(read), read}, 1).reshape(o.sizes());
    if (2 * length == padded && !wants_ends) break;
    spans.reads = at::cat({reads[0], at::bmm(reads[1], kept[0])}, 1);
    if (wants_ends) {
      const auto writes = halves(spans.writes);
      spans.writes = at::cat({at::bmm(writes[0], kept[1].mT()), writes[1]}, 1);
    }
    spans.kept = at::bmm(kept[1], kept[0]);
    states = at::bmm(kept[1], pairs[0]) + pairs[1];
  }
  const auto of_tokens = [&](const at::Tensor& t, std::int64_t width) {
    return t.reshape({num_sequences, padded, width}).narrow(1, first_place, tokens.q.size(1));
  };
  DeltaTokens result;
  result.o = of_tokens(o, head_v_dim);
  if (!wants_ends) return result;
  result.reads = of_tokens(spans.reads, head_k_dim);
  result.writes = of_tokens(spans.writes, head_k_dim);
  result.kept = spans.kept;
  return result;
}

}  // namespace mixerbench::kernels::log_linear
