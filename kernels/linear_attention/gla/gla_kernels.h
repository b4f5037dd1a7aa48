// The device code of GLA. See kernels/linear_attention/scan/decay_scan.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/linear_attention/scan/decay_scan.h"

namespace mixerbench::kernels::gla {

// To o and dv: the decays are on the channels of q and k, the keys of these scans.
int ReadScanBf16(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
                 CUstream_st* stream);
int ReadScanTf32(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
                 CUstream_st* stream);
int ReadScanFp32(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
                 CUstream_st* stream);

// To dq and dk: the decays are on the channels of k and q, the values of these scans.
int GradientScanBf16(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
                     CUstream_st* stream);
int GradientScanTf32(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
                     CUstream_st* stream);
int GradientScanFp32(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
                     CUstream_st* stream);

// d_log_decay [B,T,H,K]
int DecayGradientBf16(const decay_scan::DecayGradientProblem& problem, CUstream_st* stream);
int DecayGradientFp32(const decay_scan::DecayGradientProblem& problem, CUstream_st* stream);

// The fused plan (gla.md): each pass by one kernel, a CTA a sequence of one
// head. bf16 tensors; [B,T,H,K] and [B,T,H,V], rows aligned to 16 bytes and less than 2^31 elements
// apart; states [B,H,K,V] dense.
struct FusedProblem {
  std::int64_t batch_size = 0;
  std::int64_t seq_len = 0;
  std::int64_t num_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  float scale = 1;
  device::Sequence q = {}, k = {}, v = {};
  device::Sequence log_decay = {};       // fp32, [B,T,H,K]
  const float* initial_state = nullptr;  // null: zeros
  float* final_state = nullptr;          // written by the forward pass
  // FusedStateElements in bf16: the state that enters each chunk, in the order of registers.
  // Written by the forward pass (null: not wanted), read by the backward pass.
  void* states = nullptr;
  device::Sequence o = {};  // written by the forward pass

  // Of the backward pass.
  device::Sequence d_o = {};
  const float* d_final_state = nullptr;  // null: zeros
  device::Sequence d_q = {}, d_k = {}, d_v = {}, d_log_decay = {};
  float* d_initial_state = nullptr;  // null: not wanted
};

// Whether the fused plan has kernels for these sizes and is the faster one: sequences enough to
// fill half of the device. For bf16 tensors.
bool SupportsFused(const FusedProblem& sizes, const device::DeviceLimits& limits);
std::int64_t FusedStateElements(const FusedProblem& sizes);

// Start a kernel on `stream` of the current device and return the CUDA error code of the launch.
int FusedForward(const FusedProblem& problem, CUstream_st* stream);
int FusedBackward(const FusedProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::gla
