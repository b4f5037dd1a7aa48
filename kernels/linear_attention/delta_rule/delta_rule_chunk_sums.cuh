// The end of a chunk's backward pass: sums over channels become the gradients of beta and of the
// log decay.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/log_decay.cuh"
#include "kernels/linear_attention/delta_rule/delta_rule_device.cuh"

namespace mixerbench::kernels::delta_rule {

template <typename Element>
struct alignas(16) Vector {
  Element x[16 / sizeof(Element)];
};

template <typename Element>
__device__ Vector<Element> LoadVector(const Element* p) {
  return *reinterpret_cast<const Vector<Element>*>(p);
}

__device__ inline float WarpSum(float x) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    x += device::ShuffleXor(x, distance);
  }
  return x;
}

// In shared memory. Sums over key channels come in parts, those of db in kDbParts.
template <int kC, int kDbParts, int kParts, int kWarps>
struct ChunkSums {
  float db[kDbParts][kC];        // <q, dq> - <k, dk> + <beta k + K', M>
  float km[kParts][kC];          // <k, M>
  float written[kParts][kC];     // <k, w (Y G^T)>
  float pv[kC];                  // <P_i, v_i>
  float states_product[kWarps];  // <S, G>, a part a warp

  // `lane`: the sums of one lane over its channels, for rows g and g + 8 of tokens
  // [row_block, + 16).
  static __device__ void Put(float (&sums)[kC], int row_block, float (&lane)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2) {
        lane[half] += device::ShuffleXor(lane[half], distance);
      }
      if (device::LaneId() % 4 == 0) sums[row_block + device::BlockRow(2 * half)] = lane[half];
    }
  }

  __device__ void PutStatesProduct(int warp, float lane) {
    lane = WarpSum(lane);
    if (device::LaneId() == 0) states_product[warp] = lane;
  }

  // One warp, after a barrier: the sums over parts, d beta, and db summed from the end of the
  // chunk. `gate` is where the chunk's first token lies in [B,T,H].
  __device__ void Finish(const float (&gates)[kNumGates][kC], int num_valid, std::int64_t num_heads,
                         std::int64_t gate, const DeltaRuleGradientData& gradients) const {
    constexpr int kPerLane = kC / 32;
    float db_sums[kPerLane];
    float all_written = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int token = device::LaneId() * kPerLane + i;
      float db_i = 0, km_i = 0;
#pragma unroll
      for (int part = 0; part < kDbParts; ++part) db_i += db[part][token];
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        km_i += km[part][token];
        all_written += written[part][token];
      }
      db_sums[i] = db_i;
      if (token < num_valid) gradients.beta[gate + token * num_heads] = km_i + pv[token];
    }
    if (gradients.log_decay == nullptr) return;
    // <S+, G> belongs to the last token, so to every sum.
    if (device::LaneId() < kWarps) {
      all_written += gates[kEntering][kC - 1] * states_product[device::LaneId()];
    }
    float after = WarpSum(all_written);
    float sum = 0;  // of this lane and those after it
#pragma unroll
    for (int i = kPerLane - 1; i >= 0; --i) sum += db_sums[i];
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float other = __shfl_down_sync(0xffffffffu, sum, distance);
      if (device::LaneId() + distance < 32) sum += other;
    }
    const float next = __shfl_down_sync(0xffffffffu, sum, 1);
    after += device::LaneId() < 31 ? next : 0;
#pragma unroll
    for (int i = kPerLane - 1; i >= 0; --i) {
      const int token = device::LaneId() * kPerLane + i;
      after += db_sums[i];
      const float* const b = gates[kCumulativeLogDecay];
      const float log_decay = b[token] - (token > 0 ? b[token - 1] : 0);
      if (token < num_valid) {
        gradients.log_decay[gate + token * num_heads] = device::IsReset(log_decay) ? 0 : after;
      }
    }
  }
};

}  // namespace mixerbench::kernels::delta_rule
