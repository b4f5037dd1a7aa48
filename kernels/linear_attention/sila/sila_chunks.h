// The chunked form of SILA: what the two passes share. N chunks of C tokens, R = B H sequences.
//
// Products of all chunks have the layout of kernels/linear_attention/chunking.h, [N R, C, ...];
// what the loop over tokens touches has a token's values side by side, [N, C, R, ...].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/chunking.h"

namespace mixerbench::kernels::sila {

struct SilaSizes {
  Chunking chunking = {};
  std::int64_t batch_size = 0;
  std::int64_t num_heads = 0;
  bool decayed_erase = false;

  std::int64_t num_sequences() const { return batch_size * num_heads; }
};

// Inputs in the dtype of the computation; q is scaled.
struct SilaChunks {
  at::Tensor q, k, v;  // [N R,C,.]
  // Logits of the write gates, then of the forget gates: of the tokens [N,C,B,2H], and what the
  // recalled values of a token, side by side, add to them, [H V,2H].
  at::Tensor logits;
  at::Tensor memory;
  at::Tensor forced;  // write gates [N,C,B,H], NaN where they are free; may be undefined
};

struct SilaForward {
  at::Tensor o;            // [N R,C,V]
  at::Tensor final_state;  // [R,K,V]
  at::Tensor entering;     // [N R,K,V]: the state before each chunk
  at::Tensor logits;       // of the gates, memory included, [N,C,B,2H]
  at::Tensor recalled;     // p, [N,C,R,V]
  at::Tensor writes;       // u, [N,C,R,V]
};

struct SilaGradients {
  at::Tensor q, k, v, logits, memory, initial_state;  // as in SilaChunks; [R,K,V]
};

SilaForward RunSilaForward(const SilaChunks& chunks, const SilaSizes& sizes,
                           const at::Tensor& initial_state);

// d_o [N R,C,V], d_final_state [R,K,V]
SilaGradients RunSilaBackward(const SilaChunks& chunks, const SilaSizes& sizes,
                              const SilaForward& saved, const at::Tensor& d_o,
                              const at::Tensor& d_final_state);

// Decays between places of a chunk. A token reads before the state decays.
struct ChunkDecays {
  at::Tensor read;   // e^{b_{i-1}}, of the entering state as token i reads it, [M,C,1]
  at::Tensor write;  // e^{b_C - b_j}, of what token j wrote as it leaves the chunk, [M,C,1]
  at::Tensor all;    // e^{b_C}, [M,1,1]
  at::Tensor pairs;  // e^{b_{i-1} - b_j} for j < i, else 0, [M,C,C]
};
// Of the logits of the forget gates [...,C,B,2H] of all chunks, M = N R.
ChunkDecays DecaysOf(const at::Tensor& logits, const SilaSizes& sizes);

// [N R,C,...] -> [N,C,R,...], contiguous, and back.
at::Tensor TokensOfChunks(const at::Tensor& x, const SilaSizes& sizes);
at::Tensor ChunksOfTokens(const at::Tensor& x);

}  // namespace mixerbench::kernels::sila
