// The selective scan of S6: discretisation, diagonal recurrence, read, skip and gate in one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels {

// B batch, T tokens, D channels, N states of a channel, G groups of neighbouring channels that
// share B and C. u, delta, B, C and z share one floating dtype; all tensors share one device. Any
// strides.
struct SelectiveScanArgs {
  at::Tensor u;                   // [B,T,D]
  at::Tensor delta;               // [B,T,D]: logits of the step
  at::Tensor A_log;               // [D,N]: A = -exp(A_log)
  at::Tensor B;                   // [B,T,G,N]
  at::Tensor C;                   // [B,T,G,N]
  at::Tensor D = {};              // [D], skip; undefined: none
  at::Tensor delta_bias = {};     // [D]; undefined: none
  at::Tensor z = {};              // [B,T,D], logits of the gate; undefined: none
  at::Tensor initial_state = {};  // [B,D,N]; undefined: zeros

  std::int64_t chunk_size = 64;  // most tokens in a chunk of the fast path; changes speed, not
                                 // results
};

struct SelectiveScanResult {
  at::Tensor o;            // [B,T,D], dtype of u
  at::Tensor final_state;  // [B,D,N], fp32, or fp64 for fp64 inputs
};

// One token at a time, the definition:
//   step_t = softplus(delta_t + delta_bias)
//   h_t = exp(step_t A) h_{t-1} + step_t u_t B_t^T,   o_t = (h_t C_t + D u_t) silu(z_t)
// Cost:   O(B T D N) time and, with gradients, memory.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
// Source: arXiv 2312.00752.
SelectiveScanResult ReferenceSelectiveScan(const SelectiveScanArgs& args);

// The same in chunks, whose states are formed again in the backward pass: memory for the states of
// one chunk and for one state a chunk. Derivation in selective_scan.md.
SelectiveScanResult ChunkSelectiveScan(const SelectiveScanArgs& args);

// The same by standard operations over all tokens, an associative scan in log2(T) steps, with
// gradients by autograd: what it costs not to fuse.
// Cost: O(B T D N log T) time and memory.
SelectiveScanResult UnfusedSelectiveScan(const SelectiveScanArgs& args);

// What mixers call.
SelectiveScanResult SelectiveScan(const SelectiveScanArgs& args, ExecutionPath path);

}  // namespace mixerbench::kernels
