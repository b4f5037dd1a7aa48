// How E is factored. A block of 2h tokens is halved. Its second half reads the first through the
// boundary, b at the last token of the first half:
//
//   E_ij = exp(b_i - boundary) exp(boundary - b_j)   for j in the first, i in the second half,
//
// where both exponents are <= 0, and the sum over pairs becomes a matrix product. Each half is
// halved again, down to single tokens: every pair j < i is a pair of halves of exactly one block.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/channel_decay.h"

#include <array>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/check.h"

namespace mixerbench::kernels {
namespace {

// Shorter chunks would spend more on states than on padding.
constexpr std::int64_t kShortestChunk = 16;

// The rows of second halves and columns of first halves of blocks of 2 `half` tokens on the
// diagonal of A [M,C,C]: a view [M,C/(2 half),half,half].
at::Tensor PairsOfHalves(const at::Tensor& scores, std::int64_t half) {
  const std::int64_t num_blocks = scores.size(1) / (2 * half);
  return scores.view({scores.size(0), num_blocks, 2, half, num_blocks, 2, half})
      .select(5, 0)
      .select(2, 1)
      .diagonal(0, 1, 3)
      .permute({0, 3, 1, 2});
}

// First (0) or second (1) halves of blocks of x [M,C,D]: a view [P,half,D].
at::Tensor HalfOf(const at::Tensor& x, std::int64_t half, std::int64_t which) {
  return x.view({-1, 2, half, x.size(-1)}).select(1, which);
}

}  // namespace

Chunking CutInPowersOfTwo(std::int64_t seq_len, std::int64_t max_chunk_size) {
  std::int64_t size = 1;
  while (2 * size <= max_chunk_size && size < seq_len) size *= 2;
  const auto padding = [&] { return (size - seq_len % size) % size; };
  while (size > kShortestChunk && padding() > seq_len / 8) size /= 2;
  return {.seq_len = seq_len, .chunk_size = size, .num_chunks = (seq_len + size - 1) / size};
}

ChannelDecay::ChannelDecay(const at::Tensor& log_decay) : is_reset_(at::exp(log_decay) == 0) {
  const std::int64_t length = log_decay.size(1);
  Require((length & (length - 1)) == 0, "a chunk has a power of two of tokens");
  const LogDecaySums b(log_decay);
  from_start_ = at::exp(b.total());
  to_end_ = at::exp(LastToken(b) - b);
  whole_ = at::exp(LastToken(b).total()).mT();
  for (std::int64_t half = 1; half < length; half *= 2) {
    const auto halves = b.Halves(half);
    const LogDecaySums boundary = LastToken(halves[0]);
    levels_.push_back(
        {.to_read = at::exp(halves[1] - boundary), .to_write = at::exp(boundary - halves[0])});
  }
}

at::Tensor ChannelDecay::Scores(const at::Tensor& x, const at::Tensor& y) const {
  at::Tensor scores = at::zeros({x.size(0), x.size(1), x.size(1)}, x.options());
  std::int64_t half = 1;
  for (const Level& level : levels_) {
    const at::Tensor pairs = PairsOfHalves(scores, half);
    pairs.copy_(
        at::bmm(HalfOf(x, half, 1) * level.to_read, (HalfOf(y, half, 0) * level.to_write).mT())
            .view(pairs.sizes()));
    half *= 2;
  }
  return scores;
}

at::Tensor ChannelDecay::Gather(const at::Tensor& scores, const at::Tensor& y) const {
  at::Tensor sums = at::zeros_like(y);
  std::int64_t half = 1;
  for (const Level& level : levels_) {
    const at::Tensor pairs = PairsOfHalves(scores, half).reshape({-1, half, half});
    HalfOf(sums, half, 1)
        .addcmul_(at::bmm(pairs, HalfOf(y, half, 0) * level.to_write), level.to_read);
    half *= 2;
  }
  return sums;
}

at::Tensor ChannelDecay::Scatter(const at::Tensor& scores, const at::Tensor& x) const {
  at::Tensor sums = at::zeros_like(x);
  std::int64_t half = 1;
  for (const Level& level : levels_) {
    const at::Tensor pairs = PairsOfHalves(scores, half).reshape({-1, half, half});
    HalfOf(sums, half, 0)
        .addcmul_(at::bmm(pairs.mT(), HalfOf(x, half, 1) * level.to_read), level.to_write);
    half *= 2;
  }
  return sums;
}

at::Tensor ChannelDecay::LogDecayGradient(at::Tensor db, const at::Tensor& d_whole) const {
  db.select(1, db.size(1) - 1).add_(d_whole);
  at::Tensor dg = at::flip(at::cumsum(at::flip(db, {1}), 1), {1});
  return dg.masked_fill_(is_reset_, 0);
}

ChunkStates ScanStates(const at::Tensor& initial_state, const at::Tensor& writes,
                       const at::Tensor& whole) {
  const std::int64_t num_chunks = writes.size(0) / initial_state.size(0);
  const auto writes_of = writes.chunk(num_chunks);
  const auto whole_of = whole.chunk(num_chunks);
  return ScanChunks(initial_state, num_chunks, [&](std::int64_t n, const at::Tensor& state) {
    const auto i = static_cast<std::size_t>(n);
    return at::addcmul(writes_of[i], state, whole_of[i]);
  });
}

ChunkStateGradients ScanStateGradients(const at::Tensor& final_state, const at::Tensor& reads,
                                       const at::Tensor& whole) {
  const std::int64_t num_chunks = reads.size(0) / final_state.size(0);
  const auto reads_of = reads.chunk(num_chunks);
  const auto whole_of = whole.chunk(num_chunks);
  std::vector<at::Tensor> leaving(static_cast<std::size_t>(num_chunks));
  at::Tensor gradient = final_state;
  for (std::size_t n = leaving.size(); n-- > 0;) {
    leaving[n] = gradient;
    gradient = at::addcmul(reads_of[n], gradient, whole_of[n]);
  }
  return {.leaving = at::cat(leaving), .initial_state = gradient};
}

at::Tensor LeavingStates(const ChunkStates& states) {
  const std::int64_t per_chunk = states.final_state.size(0);
  return at::cat({states.entering.slice(0, per_chunk), states.final_state});
}

at::Tensor DiagonalOf(const at::Tensor& scores) { return scores.diagonal(0, 1, 2).unsqueeze(-1); }

}  // namespace mixerbench::kernels
