// The device code of the selective scan: raw pointers, sizes and a stream in, the CUDA error code
// of the launch out. No torch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/sequence.h"
#include "kernels/linear_attention/selective_scan/selective_scan_plan.h"

namespace mixerbench::kernels::selective_scan {

// [B,T,D], or [B,T,G,N] of B and C (heads are groups); neighbouring channels or states are
// adjacent. Of u, delta, z, B, C and their gradients in bf16 or fp32, all alike; fp32 otherwise.
// Rows need no alignment.
struct ScanProblem {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_channels = 0;
  std::int64_t num_groups = 0;
  std::int64_t state_size = 0;
  bool is_bf16 = false;
  device::Sequence u = {}, delta = {}, B = {}, C = {};
  device::Sequence z = {};               // data null: no gate
  const float* A_log = nullptr;          // [D,N]
  const float* D = nullptr;              // [D]; null: no skip
  const float* delta_bias = nullptr;     // [D]; null: zeros
  const float* initial_state = nullptr;  // [B,D,N]; null: zeros
  // The state that enters each chunk, [B, chunks, D, padded states]. Written by the forward pass
  // (null: not wanted), read by the backward pass.
  float* states = nullptr;

  // Of the forward pass.
  device::Sequence o = {};
  float* final_state = nullptr;  // [B,D,N]

  // Of the backward pass.
  device::Sequence d_o = {};
  const float* d_final_state = nullptr;  // null: zeros
  device::Sequence d_u = {}, d_delta = {}, d_B = {}, d_C = {}, d_z = {};
  float* d_initial_state = nullptr;  // [B,D,N]; null: not wanted
  // Sums over the channels of each CTA, [B,T,G, blocks, 2 (B, C), padded states].
  float* block_sums = nullptr;
  // Sums over time, of each sequence: [B,D,padded states] and twice [B,D].
  float* d_A_log = nullptr;
  float* d_D = nullptr;
  float* d_delta_bias = nullptr;

  ScanLayout layout() const { return {ScanLayout::LanesFor(state_size)}; }
};

int ScanForward(const ScanProblem& problem, CUstream_st* stream);

// All gradients but that d_B and d_C are left as block_sums.
int ScanBackward(const ScanProblem& problem, CUstream_st* stream);

// block_sums to d_B and d_C, added in the order of the blocks.
int SumBlocks(const ScanProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::selective_scan
