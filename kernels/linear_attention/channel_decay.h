// Products inside a chunk between what one token writes and what a later one reads, when every
// channel decays by itself: the part that cores with such a decay share, forward and backward.
//
// With b_i the sum of the log decays of a chunk's tokens up to and with i,
//
//   E_ijd = exp(b_id - b_jd)   for j < i,
//
// is what token i finds of channel d of what token j wrote. No exponent is ever positive
// (channel_decay.cc). Tensors have the layout of kernels/linear_attention/chunking.h: [M,C,...], M
// chunks of C tokens, C a power of two. No gradients are recorded: callers have their own backward
// pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/chunking.h"

namespace mixerbench::kernels {

// Chunks of at most `max_chunk_size` tokens whose length is a power of two, a shorter one where it
// saves much padding.
Chunking CutInPowersOfTwo(std::int64_t seq_len, std::int64_t max_chunk_size);

class ChannelDecay {
 public:
  // log_decay [M,C,D] <= 0
  explicit ChannelDecay(const at::Tensor& log_decay);

  // The three products with E, each O(C log C D) exponentials and O(C^2 D) FLOPs a chunk.
  // A_ij = sum_d x_id y_jd E_ijd. x, y [M,C,D] -> [M,C,C], zeros for j >= i.
  at::Tensor Scores(const at::Tensor& x, const at::Tensor& y) const;
  // sum_{j<i} A_ij y_jd E_ijd. A [M,C,C], of which j < i is read, y [M,C,D] -> [M,C,D].
  at::Tensor Gather(const at::Tensor& scores, const at::Tensor& y) const;
  // sum_{i>j} A_ij x_id E_ijd. -> [M,C,D].
  at::Tensor Scatter(const at::Tensor& scores, const at::Tensor& x) const;

  const at::Tensor& from_start() const { return from_start_; }  // exp(b) [M,C,D]
  const at::Tensor& to_end() const { return to_end_; }          // exp(b_C - b) [M,C,D]
  const at::Tensor& whole() const { return whole_; }            // exp(b_C) [M,D,1], of a state

  // The gradient of log_decay, given that of b, which is consumed, and that of b_C beside it,
  // [M,D].
  at::Tensor LogDecayGradient(at::Tensor db, const at::Tensor& d_whole) const;

 private:
  struct Level {          // of blocks of 2^(l+1) tokens, P = M C / 2^(l+1) of them
    at::Tensor to_read;   // exp(b_i - boundary) of the second half, [P,C_l,D]
    at::Tensor to_write;  // exp(boundary - b_j) of the first half
  };

  std::vector<Level> levels_;
  at::Tensor from_start_, to_end_, whole_;
  at::Tensor is_reset_;  // [M,C,D]: nothing is left, whatever the log decay is exactly
};

// States of all chunks: S+ = diag(whole) S + writes. initial_state [R,K,V], writes [N R,K,V],
// whole [N R,K,1].
ChunkStates ScanStates(const at::Tensor& initial_state, const at::Tensor& writes,
                       const at::Tensor& whole);

struct ChunkStateGradients {
  at::Tensor leaving;        // [N R,K,V]: of the state after each chunk
  at::Tensor initial_state;  // [R,K,V]
};

// The reverse: dS = diag(whole) dS+ + reads, where `reads` is the gradient of the state that enters
// a chunk by the chunk's own outputs.
ChunkStateGradients ScanStateGradients(const at::Tensor& final_state, const at::Tensor& reads,
                                       const at::Tensor& whole);

// The states after each chunk, [N R,K,V].
at::Tensor LeavingStates(const ChunkStates& states);

// The elements [M,C,1] of A [M,C,C] on its diagonal.
at::Tensor DiagonalOf(const at::Tensor& scores);

}  // namespace mixerbench::kernels
