// Cutting a sequence into chunks of equal length, and carrying a state from chunk to chunk.
//
// Chunked tensors have the layout [N R, C, ...]: N chunks, then R = B H sequences, so that one
// batched matrix product serves all chunks and a chunk is a contiguous slice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include "kernels/runtime/execution_path.h"

namespace mixerbench::kernels {

struct Chunking {
  std::int64_t seq_len = 0;
  std::int64_t chunk_size = 0;  // C
  std::int64_t num_chunks = 0;  // N; N C >= seq_len
};

// The fewest chunks of at most `max_chunk_size` tokens, all of the length that pads least: 65
// tokens in chunks of at most 64 are 2 chunks of 33.
Chunking CutEvenly(std::int64_t seq_len, std::int64_t max_chunk_size);

// [B,T,H,...] -> [N R, C, ...] in `dtype`. Tokens past the end are zeros: k = v = beta = 0 writes
// nothing and log_decay = 0 forgets nothing, so they leave every formula unchanged.
at::Tensor SplitChunks(const at::Tensor& x, const Chunking& chunking, at::ScalarType dtype);

// [N R, C, D] -> [B,T,H,D], the inverse of SplitChunks.
at::Tensor MergeChunks(const at::Tensor& x, const Chunking& chunking, std::int64_t num_heads);

// What is added to the argument of an exponential [L,L]: 0 for j <= i, -infinity above the
// diagonal. The mask comes before the exponential: after it, the infinity of a masked pair would
// become NaN in the backward pass.
at::Tensor FutureMask(std::int64_t length, const at::TensorOptions& options);

// The sums of log decays from the first token of a chunk to each, [M,C,...], whose differences are
// as exact as the log decays between the two tokens, whatever came before them: b = coarse + fine,
// where sums and differences of `coarse`, multiples of a power of two, have no rounding, and `fine`
// is small. A log decay whose exponential is zero in its dtype, -infinity among them, counts as the
// nearest finite one of these, so that no difference is NaN; its gradient is zero.
class LogDecaySums {
 public:
  // log_decay [M,C,...]
  explicit LogDecaySums(const at::Tensor& log_decay);

  // b. Gradients flow through `fine`.
  at::Tensor total() const { return coarse_ + fine_; }

  // b_i - b_j of two of them, which broadcast.
  friend at::Tensor operator-(const LogDecaySums& later, const LogDecaySums& earlier);

  // The same view of both parts.
  template <typename View>
  LogDecaySums Map(const View& view) const {
    return {view(coarse_), view(fine_)};
  }

  // SplitHalves of both parts.
  std::array<LogDecaySums, 2> Halves(std::int64_t half) const;

 private:
  LogDecaySums(at::Tensor coarse, at::Tensor fine)
      : coarse_(std::move(coarse)), fine_(std::move(fine)) {}

  at::Tensor coarse_;  // no gradient
  at::Tensor fine_;
};

// b of the last token of each chunk, [M,1,...].
LogDecaySums LastToken(const LogDecaySums& b);

// exp(b_i - b_j) for j <= i and 0 above the diagonal. b [M,C] -> [M,C,C].
at::Tensor CausalDecay(const LogDecaySums& b);

// Blocks of 2 `half` tokens of x [M,C,D] as their first and their second halves, 2 x [P,half,D].
std::array<at::Tensor, 2> SplitHalves(const at::Tensor& x, std::int64_t half);

struct ChunkStates {
  at::Tensor entering;     // [N R, K, V]: the state before each chunk
  at::Tensor final_state;  // [R, K, V]
};

// `step(n, state)` maps the state [R,K,V] before chunk n to the one after it.
ChunkStates ScanChunks(
    const at::Tensor& initial_state, std::int64_t num_chunks,
    const std::function<at::Tensor(std::int64_t n, const at::Tensor& state)>& step);

// Tells (plan.h) what a core without device code runs on the device of `q`: the reference, or
// ATen's functions chunk by chunk.
void RecordAtenChunks(std::string_view core, ExecutionPath path, const at::Tensor& q,
                      bool needs_gradients);

}  // namespace mixerbench::kernels
