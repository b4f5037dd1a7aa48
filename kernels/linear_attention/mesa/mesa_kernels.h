// The device code of Mesa: raw pointers, sizes and a stream in, the CUDA error code of the launch
// out. No torch. The maths is in mesa.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

struct CUstream_st;

namespace mixerbench::kernels::mesa {

// Solves (H_i + diag ridge) x_i = b_i for every token i of M chunks by conjugate gradients from
// zero, H_i = e^{g_i} H_{i-1} + beta_i k_i k_i^T from `entering` on, in fewer iterations where
// further ones would only round. fp32; tensors are dense but for `entering`.
struct SystemsProblem {
  std::int64_t num_chunks = 0;       // M, at most 2^31 - 1
  std::int64_t chunk_size = 0;       // C
  int head_k_dim = 0;                // K <= kMaxKeys
  std::int64_t num_iterations = 0;   // >= 1
  const float* k = nullptr;          // [M,C,K]
  const float* log_decay = nullptr;  // g [M,C] <= 0
  const float* beta = nullptr;       // [M,C] >= 0
  const float* ridge = nullptr;      // [M,K] > 0
  const float* entering = nullptr;   // [M,K,K], symmetric, columns adjacent
  std::int64_t entering_stride = 0;  // elements from chunk to chunk
  std::int64_t entering_row_stride = 0;
  const float* b = nullptr;  // [M,C,K]
  float* x = nullptr;        // [M,C,K]
};

int SolveSystems(const SystemsProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::mesa
