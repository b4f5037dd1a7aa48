// Cutting a sequence into chunks of equal length, and carrying a state from chunk to chunk.
//
// Chunked tensors have the layout [N R, C, ...]: N chunks, then R = B H sequences, so that one
// batched matrix product serves all chunks and a chunk is a contiguous slice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

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

// exp(b_i - b_j) for j <= i and 0 above the diagonal. b [M,C], the inclusive cumulative sum of log
// decays, never rising -> [M,C,C].
at::Tensor CausalDecay(const at::Tensor& cumulative_log_decay);

struct ChunkStates {
  at::Tensor entering;     // [N R, K, V]: the state before each chunk
  at::Tensor final_state;  // [R, K, V]
};

// `step(n, state)` maps the state [R,K,V] before chunk n to the one after it.
ChunkStates ScanChunks(
    const at::Tensor& initial_state, std::int64_t num_chunks,
    const std::function<at::Tensor(std::int64_t n, const at::Tensor& state)>& step);

}  // namespace mixerbench::kernels
