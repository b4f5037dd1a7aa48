// The gates of a chunk, DeltaRuleFactorData::gates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/log_decay.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_device.cuh"

namespace mixerbench::kernels::delta_rule {

// One lane's part of a chunk's inputs: tokens kPerLane lane, ...
template <int kC>
struct LaneGates {
  static constexpr int kPerLane = kC / 32;
  float beta[kPerLane] = {};
  float log_decay[kPerLane] = {};

  // Tokens from num_valid on get zeros, and all decays do without log_decay.
  __device__ void Load(const float* log_decays, const float* betas, std::int64_t token_stride,
                       int num_valid) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int t = device::LaneId() * kPerLane + i;
      const bool valid = t < num_valid;
      beta[i] = valid ? betas[t * token_stride] : 0.f;
      log_decay[i] = valid && log_decays != nullptr
                         ? device::BoundedLogDecay(log_decays[t * token_stride])
                         : 0.f;
    }
  }
};

// Gates of one chunk by one warp: cumulative sums of the log decay in fp32.
template <int kC>
__device__ void ComputeGates(float (&gates)[kNumGates][kC], const LaneGates<kC>& lane) {
  constexpr int kPerLane = LaneGates<kC>::kPerLane;
  const int first = device::LaneId() * kPerLane;
  float sums[kPerLane];  // of this lane's tokens
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    gates[kBeta][first + i] = lane.beta[i];
    sums[i] = lane.log_decay[i];
    if (i > 0) sums[i] += sums[i - 1];
  }
  float before = sums[kPerLane - 1];  // inclusive scan over lanes, then exclusive
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const float other = device::ShuffleUp(before, distance);
    if (device::LaneId() >= distance) before += other;
  }
  const float total = __shfl_sync(0xffffffffu, before, 31);
  before = device::ShuffleUp(before, 1);
  if (device::LaneId() == 0) before = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const float b = before + sums[i];
    gates[kCumulativeLogDecay][first + i] = b;
    gates[kEntering][first + i] = device::Exp(b);
    gates[kLeaving][first + i] = device::Exp(total - b);
  }
}

}  // namespace mixerbench::kernels::delta_rule
