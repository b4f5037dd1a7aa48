// The products of log-linear attention. Tokens of a sequence and head lie side by side, [R,S,...]
// with R = B H sequences.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/log_linear/log_linear_chunks.h"

#include <algorithm>
#include <bit>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_attention/chunking.h"

namespace mixerbench::kernels::log_linear {
namespace {

// [...] of distances i xor j -> their levels, 0 for 0.
at::Tensor LevelOf(const at::Tensor& distance, std::int64_t num_levels) {
  // On the device, so that a graph can hold it.
  const auto powers =
      at::bitwise_left_shift(at::Scalar(1), at::arange(num_levels - 1, distance.options()));
  return distance.unsqueeze(-1).ge(powers).sum(-1);
}

// [...] levels -> [...,L], one at the level.
at::Tensor OneHot(const at::Tensor& level, std::int64_t num_levels, at::ScalarType dtype) {
  return level.unsqueeze(-1).eq(at::arange(num_levels, level.options())).to(dtype);
}

at::Tensor Positions(const at::Tensor& like, std::int64_t begin, std::int64_t count) {
  return at::arange(begin, begin + count, like.options().dtype(at::kLong));
}

// All pairs of a block: x [M,C,...].
at::Tensor WithinBlocks(const LogLinearTokens& x, std::int64_t block) {
  const auto blocks = [&](const at::Tensor& t) { return t.reshape({-1, block, t.size(-1)}); };
  auto scores = at::bmm(blocks(x.q), blocks(x.k).mT()) * PairWeights(x, block);
  if (x.log_decay.defined()) {
    scores = scores * CausalDecay(LogDecaySums(x.log_decay.reshape({-1, block})));
  } else {
    scores = scores.tril();
  }
  return at::bmm(scores, blocks(x.v)).reshape(x.v.sizes());
}

// exp of the sums of log decays from the start of each span of `length` tokens to each token of it,
// and from after each token to the end: [M,length,1]. Undefined without decay.
struct SpanDecays {
  at::Tensor from_start, to_end;
};
SpanDecays DecaysOfSpans(const at::Tensor& log_decay, std::int64_t length) {
  if (!log_decay.defined()) return {};
  const LogDecaySums b(log_decay.reshape({-1, length}));
  return {at::exp(b.total()).unsqueeze(-1), at::exp(LastToken(b) - b).unsqueeze(-1)};
}

at::Tensor Scaled(const at::Tensor& x, const at::Tensor& decay) {
  return decay.defined() ? x * decay : x;
}

}  // namespace

at::Tensor PairWeights(const LogLinearTokens& padded, std::int64_t block) {
  const auto num_levels =
      static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(block)));
  const auto position = Positions(padded.q, 0, block);
  const auto level =
      LevelOf(at::bitwise_xor(position.unsqueeze(1), position.unsqueeze(0)), num_levels);
  const auto one_hot = OneHot(level, num_levels, padded.q.scalar_type());  // [C,C,levels]
  const auto of_blocks =
      padded.level_weight.narrow(2, 0, num_levels).reshape({-1, block, num_levels});
  // Of each query by itself, a product over levels: [C,M,levels] [C,levels,C].
  return at::bmm(of_blocks.transpose(0, 1), one_hot.mT()).transpose(0, 1);
}

LogLinearTokens Padded(const LogLinearTokens& tokens, std::int64_t first_place) {
  const std::int64_t end = first_place + tokens.q.size(1);
  const auto padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(end)));
  const auto in_place = [&](const at::Tensor& x) {
    if (!x.defined() || x.size(1) == padded) return x;
    const std::int64_t after = padded - end;
    if (x.dim() == 2) return at::constant_pad_nd(x, {first_place, after});
    return at::constant_pad_nd(x, {0, 0, first_place, after});
  };
  return {.q = in_place(tokens.q),
          .k = in_place(tokens.k),
          .v = in_place(tokens.v),
          .level_weight = in_place(tokens.level_weight),
          .log_decay = in_place(tokens.log_decay),
          .beta = in_place(tokens.beta)};
}

// A span of 2^m blocks whose place has bit m set reads the span before it, for every m: the tokens
// of the level above those of a block. Level by level, all spans at once.
at::Tensor AmongTokens(const LogLinearTokens& tokens, std::int64_t first_place,
                       std::int64_t chunk_size) {
  const LogLinearTokens x = Padded(tokens, first_place);
  const std::int64_t padded = x.q.size(1);
  const std::int64_t num_sequences = x.q.size(0), head_k_dim = x.q.size(2);
  const std::int64_t head_v_dim = x.v.size(2);
  const std::int64_t block = std::min(chunk_size, padded);
  at::Tensor o = WithinBlocks(x, block);

  std::int64_t level = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(block)));
  at::Tensor states;  // of spans of `length` tokens, [R spans,K,V]
  for (std::int64_t length = block; length < padded; length *= 2, ++level) {
    // The second span of each pair reads the first; both make a span of the next level.
    const auto second = [&](const at::Tensor& t) {
      return t.reshape({num_sequences, -1, 2, length, t.size(-1)}).select(2, 1).flatten(0, 1);
    };
    const auto decays = DecaysOfSpans(x.log_decay, length);
    if (!states.defined()) {
      states = at::bmm(Scaled(x.k.reshape({-1, length, head_k_dim}), decays.to_end).mT(),
                       x.v.reshape({-1, length, head_v_dim}));
    }
    const auto pairs = states.reshape({-1, 2, head_k_dim, head_v_dim}).unbind(1);
    at::Tensor factor = second(x.level_weight).select(-1, level).unsqueeze(-1);
    at::Tensor kept = pairs[0];
    if (decays.from_start.defined()) {
      const auto decay = decays.from_start.reshape({-1, 2, length, 1}).select(1, 1);
      factor = factor * decay;
      kept = kept * decay.narrow(1, length - 1, 1);
    }
    const auto read = at::bmm(second(x.q) * factor, pairs[0]);  // [R spans/2,length,V]
    o = o + at::stack({at::zeros_like(read), read}, 1).reshape(o.sizes());
    states = kept + pairs[1];
  }
  return o.narrow(1, first_place, tokens.q.size(1));
}

at::Tensor OfInitialLevels(const LogLinearTokens& x, const std::vector<Bucket>& buckets,
                           const std::vector<at::Tensor>& states, std::int64_t position,
                           const at::Tensor& from_start) {
  const std::int64_t num_levels = x.level_weight.size(2);
  const auto positions = Positions(x.q, position, x.q.size(1));
  std::vector<at::Tensor> queries;
  for (const Bucket& bucket : buckets) {
    const auto level = LevelOf(positions.bitwise_xor(bucket.begin), num_levels);
    const auto weight =
        (x.level_weight * OneHot(level, num_levels, x.q.scalar_type())).sum(-1, /*keepdim=*/true);
    queries.push_back(x.q * Scaled(weight, from_start));
  }
  return at::bmm(at::cat(queries, 2), at::cat(states, 1));
}

at::Tensor FinalLevels(const LogLinearTokens& x, const std::vector<Bucket>& initial,
                       const std::vector<at::Tensor>& states, std::int64_t position) {
  const std::int64_t num_tokens = x.q.size(1), end = position + num_tokens;
  std::vector<at::Tensor> levels(static_cast<std::size_t>(x.level_weight.size(2)));
  const auto decays = DecaysOfSpans(x.log_decay, num_tokens);
  const auto k = Scaled(x.k, decays.to_end);
  for (const Bucket& bucket : BucketsBefore(end)) {
    auto& level = levels[static_cast<std::size_t>(bucket.level - 1)];
    const std::int64_t first = std::max(bucket.begin, position) - position;
    const std::int64_t count = bucket.begin + bucket.size - position - first;
    if (count > 0) level = at::bmm(k.narrow(1, first, count).mT(), x.v.narrow(1, first, count));
    for (std::size_t i = 0; i < initial.size(); ++i) {
      if (initial[i].begin < bucket.begin || initial[i].begin >= bucket.begin + bucket.size) {
        continue;
      }
      const auto kept = decays.from_start.defined()
                            ? states[i] * decays.from_start.narrow(1, num_tokens - 1, 1)
                            : states[i];
      level = level.defined() ? level + kept : kept;
    }
  }
  for (auto& level : levels) {
    if (!level.defined()) level = at::zeros({x.q.size(0), x.q.size(2), x.v.size(2)}, x.q.options());
  }
  return at::stack(levels, 1);
}

at::Tensor DecayFromStart(const at::Tensor& log_decay) {
  return log_decay.defined() ? DecaysOfSpans(log_decay, log_decay.size(1)).from_start
                             : at::Tensor();
}

}  // namespace mixerbench::kernels::log_linear
