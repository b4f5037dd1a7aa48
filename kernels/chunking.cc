// SPDX-License-Identifier: Apache-2.0
#include "kernels/chunking.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>

namespace mixerbench::kernels {

Chunking CutEvenly(std::int64_t seq_len, std::int64_t max_chunk_size) {
  const std::int64_t num_chunks = (seq_len + max_chunk_size - 1) / max_chunk_size;
  return {.seq_len = seq_len,
          .chunk_size = (seq_len + num_chunks - 1) / num_chunks,
          .num_chunks = num_chunks};
}

at::Tensor SplitChunks(const at::Tensor& x, const Chunking& chunking, at::ScalarType dtype) {
  const std::int64_t num_padding = chunking.num_chunks * chunking.chunk_size - chunking.seq_len;
  auto padded = x.to(dtype);
  if (num_padding > 0) {
    // Pairs (before, after) from the last axis to the time axis.
    std::vector<std::int64_t> padding(2 * static_cast<std::size_t>(x.dim() - 1), 0);
    padding.back() = num_padding;
    padded = at::constant_pad_nd(padded, padding);
  }
  auto chunks = padded.unflatten(1, {chunking.num_chunks, chunking.chunk_size});  // [B,N,C,H,...]
  chunks = chunks.permute(x.dim() == 4 ? at::IntArrayRef{1, 0, 3, 2, 4}
                                       : at::IntArrayRef{1, 0, 3, 2});  // [N,B,H,C,...]
  return chunks.flatten(0, 2);
}

at::Tensor MergeChunks(const at::Tensor& x, const Chunking& chunking, std::int64_t num_heads) {
  const auto chunks = x.unflatten(0, {chunking.num_chunks, -1, num_heads});  // [N,B,H,C,D]
  const auto padded = chunks.permute({1, 0, 3, 2, 4}).flatten(1, 2);         // [B,N C,H,D]
  return padded.narrow(1, 0, chunking.seq_len);
}

at::Tensor FutureMask(std::int64_t length, const at::TensorOptions& options) {
  return at::full({length, length}, -std::numeric_limits<double>::infinity(), options).triu(1);
}

at::Tensor CausalDecay(const at::Tensor& cumulative_log_decay) {
  const auto& b = cumulative_log_decay;
  return at::exp(b.unsqueeze(2) - b.unsqueeze(1) + FutureMask(b.size(1), b.options()));
}

ChunkStates ScanChunks(
    const at::Tensor& initial_state, std::int64_t num_chunks,
    const std::function<at::Tensor(std::int64_t n, const at::Tensor& state)>& step) {
  std::vector<at::Tensor> entering;
  auto state = initial_state;
  for (std::int64_t n = 0; n < num_chunks; ++n) {
    entering.push_back(state);
    state = step(n, state);
  }
  return {.entering = at::cat(entering), .final_state = state};
}

}  // namespace mixerbench::kernels
