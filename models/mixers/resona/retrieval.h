// The two steps of RESONA on plain tensors: search for chunks, and attention to their tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"
#include "models/mixers/resona/resona.h"

namespace mixerbench::models::resona {

// T queries at the end of S tokens, the first N U of which are chunks n = 0..N-1 of U tokens; token
// i may read chunks that end before it, n < floor(i / U).
struct SearchArgs {
  at::Tensor queries;  // [B,T,E], float32 at least
  at::Tensor codes;    // [B,N,E], N >= 1
  std::int64_t first_position = 0;
  std::int64_t chunk_size = 1;
  std::int64_t top_k = 1;
  SearchGradient gradient = SearchGradient::kStraightThrough;
  double temperature = 1;
};

struct Choice {
  at::Tensor chunks;  // [B,T,k] int64, the best first; of ties the earlier chunk
  at::Tensor valid;   // [T,k] bool: token i has floor(i / U) chunks to choose from
  at::Tensor gate;    // [B,T,k]: what values of the chunk are multiplied by; undefined: one
};

// The k chunks of the largest cosines.
Choice Search(const SearchArgs& args);

// [T,1] in the dtype of `like`: 1 for tokens that have a chunk to choose, else 0.
at::Tensor HasChunk(const SearchArgs& args, const at::Tensor& like);

struct IntegrateArgs {
  at::Tensor q;   // [B,T,h,D]
  at::Tensor kv;  // [B,S,2,h,D]: keys, then values
  Choice choice;
  std::int64_t chunk_size = 1;
};

// Attention of each query to the tokens of its chunks, of scale D^-0.5 -> [B,T,h,D], dtype of q;
// what tokens without a chunk get is finite and means nothing. Reference: a mask of T x S. Fast:
// the keys and values of its chunks alone are gathered for each query while they are fewer elements
// than that mask.
at::Tensor Integrate(const IntegrateArgs& args, kernels::ExecutionPath path);

}  // namespace mixerbench::models::resona
