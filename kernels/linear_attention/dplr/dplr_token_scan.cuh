// What both passes of the token scan share: who owns which part of the state, how tokens come to
// shared memory, sums over the lanes, one step of the recurrence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/linear_attention/dplr/dplr_kernels.h"
#include "kernels/linear_attention/state_lanes.cuh"

namespace mixerbench::kernels::dplr {

using token_scan::SpreadOverKeyLanes;
using token_scan::SumOverKeyLanes;
using token_scan::SumOverValueLanes;

// Four elements as they lie in memory, those of bf16 in x and y. What is loaded is unpacked only
// where it is used, so that no load waits for another.
using RawFour = uint4;

// From `index` on; those at and after `count` are zeros.
__device__ inline RawFour LoadRaw(const TokenRows& x, std::int64_t index, std::int64_t count) {
  if (count <= 0) return make_uint4(0, 0, 0, 0);
  if (x.element == Element::kFloat) {
    const auto* data = static_cast<const std::uint32_t*>(x.rows.data) + index;
    if (x.in_fours) return *reinterpret_cast<const uint4*>(data);
    return make_uint4(data[0], count > 1 ? data[1] : 0, count > 2 ? data[2] : 0,
                      count > 3 ? data[3] : 0);
  }
  const auto* data = static_cast<const std::uint16_t*>(x.rows.data) + index;
  if (x.in_fours) {
    const uint2 raw = *reinterpret_cast<const uint2*>(data);
    return make_uint4(raw.x, raw.y, 0, 0);
  }
  const auto at = [&](int i) { return count > i ? std::uint32_t{data[i]} : 0; };
  return make_uint4(at(0) | at(1) << 16, at(2) | at(3) << 16, 0, 0);
}

__device__ inline float4 Unpack(const TokenRows& x, RawFour raw) {
  if (x.element == Element::kFloat) {
    return make_float4(device::FloatFromBits(raw.x), device::FloatFromBits(raw.y),
                       device::FloatFromBits(raw.z), device::FloatFromBits(raw.w));
  }
  return make_float4(device::LowBf16(raw.x), device::HighBf16(raw.x), device::LowBf16(raw.y),
                     device::HighBf16(raw.y));
}

__device__ inline void StoreOne(const TokenRows& x, std::int64_t index, float value) {
  if (x.element == Element::kFloat) {
    static_cast<float*>(x.rows.data)[index] = value;
  } else {
    static_cast<__nv_bfloat16*>(x.rows.data)[index] = __float2bfloat16_rn(value);
  }
}

// The first `count` of four elements, at most, from `index` on.
__device__ inline void StoreFour(const TokenRows& x, std::int64_t index, std::int64_t count,
                                 float4 value) {
  if (x.in_fours && count > 0) {
    if (x.element == Element::kFloat) {
      *reinterpret_cast<float4*>(static_cast<float*>(x.rows.data) + index) = value;
    } else {
      *reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(x.rows.data) + index) =
          make_uint2(device::PackBf16(value.x, value.y), device::PackBf16(value.z, value.w));
    }
    return;
  }
  if (count > 0) StoreOne(x, index, value.x);
  if (count > 1) StoreOne(x, index + 1, value.y);
  if (count > 2) StoreOne(x, index + 2, value.z);
  if (count > 3) StoreOne(x, index + 3, value.w);
}

// The part of a head that a thread owns; columns are those of the warp. kKeys: key channels with
// padding. All elements beyond K and V are zeros: keys, values and states, and so are the gradients
// of these.
template <int kKeys>
struct ScanTile : token_scan::StateLanes<kKeys> {
  using Lanes = token_scan::StateLanes<kKeys>;
  using Lanes::kWidth;
  using Lanes::lane;
  using Lanes::num_warps;
  using Lanes::warp;
  using typename Lanes::State;

  const TokenScanProblem& p;
  std::int64_t batch, head, block;
  std::int64_t first_column;  // of the warp

  __device__ explicit ScanTile(const TokenScanProblem& problem) : Lanes(0), p(problem) {
    const std::int64_t num_blocks = p.tiling().num_blocks;
    block = blockIdx.x % num_blocks;
    head = blockIdx.x / num_blocks % p.num_heads;
    batch = blockIdx.x / num_blocks / p.num_heads;
    first_column = (block * num_warps + warp) * kWidth;
  }

  // Sum over the warp's columns of `value`, which each lane has for Column(0).
  __device__ float SumOfColumns(float value) const {
    float sum = this->OwnsColumn() ? value : 0.0f;
#pragma unroll
    for (int mask = 1; mask < 32; mask *= 2) sum += device::ShuffleXor(sum, mask);
    return sum;
  }

  // Where a token of the head begins.
  __device__ std::int64_t Offset(const TokenRows& x, std::int64_t token) const {
    return batch * x.rows.batch_stride + token * x.rows.token_stride + head * x.rows.head_stride;
  }

  // Stores `value` of the column Column(0); of several lanes with the same column one does.
  __device__ void StoreColumn(const TokenRows& x, std::int64_t token, float value) const {
    const std::int64_t column = first_column + this->Column(0);
    if (this->OwnsColumn() && column < p.head_v_dim) StoreOne(x, Offset(x, token) + column, value);
  }

  // Four channels of a token of the head, from `channel` of `num_channels` on.
  __device__ RawFour LoadFour(const TokenRows& x, std::int64_t token, std::int64_t channel,
                              std::int64_t num_channels) const {
    return LoadRaw(x, Offset(x, token) + channel, num_channels - channel);
  }

  // The columns of this warp of N tensors, [count][kWidth] each, by its lanes.
  template <int N>
  __device__ void LoadValues(float* const (&targets)[N], const TokenRows* const (&x)[N],
                             std::int64_t first, int count) const {
    constexpr int kQuads = kWidth / 4;
    for (int i = lane; i < count * kQuads; i += 32) {
      RawFour raw[N];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        raw[n] = LoadFour(*x[n], first + i / kQuads, first_column + i % kQuads * 4, p.head_v_dim);
      }
#pragma unroll
      for (int n = 0; n < N; ++n) {
        reinterpret_cast<float4*>(targets[n])[i] = Unpack(*x[n], raw[n]);
      }
    }
  }

  // A state [B,H,K,V]; null: zeros.
  __device__ void Load(State& s, const float* states) const {
    ForEach([&](int r, int c, std::int64_t element, bool exists) {
      s[r][c] = exists && states != nullptr ? states[element] : 0.0f;
    });
  }
  __device__ void Store(float* states, const State& s) const {
    ForEach([&](int r, int c, std::int64_t element, bool exists) {
      if (exists) states[element] = s[r][c];
    });
  }

  // The place of the warp in p.states before chunk n.
  __device__ float* KeptState(std::int64_t n) const {
    const std::int64_t of_all = std::int64_t{blockIdx.x} * num_warps + warp;
    return p.states + (of_all * NumChunks(p.seq_len) + n) * kStatesPerWarp;
  }

 private:
  template <typename Function>
  __device__ void ForEach(const Function& f) const {
    const std::int64_t first = (batch * p.num_heads + head) * p.head_k_dim * p.head_v_dim;
#pragma unroll
    for (int r = 0; r < Lanes::kRows; ++r) {
#pragma unroll
      for (int c = 0; c < Lanes::kColumns; ++c) {
        const std::int64_t row = this->Row(r);
        const std::int64_t column = first_column + this->Column(c);
        f(r, c, first + row * p.head_v_dim + column, row < p.head_k_dim && column < p.head_v_dim);
      }
    }
  }
};

// What the CTA has of the tokens of a chunk: vectors over keys in shared memory, [kChunk][kKeys]
// each.
template <int kKeys>
struct KeyVectors {
  float k[kChunk][kKeys];
  float a[kChunk][kKeys];
  float b[kChunk][kKeys];
  float q[kChunk][kKeys];
  float decay[kChunk][kKeys];
  float beta[kChunk];

  // The first `count` tokens of a chunk from `first` on, by all threads of the CTA.
  __device__ void Load(const ScanTile<kKeys>& tile, std::int64_t first, int count) {
    const TokenScanProblem& p = tile.p;
    constexpr int kQuads = kKeys / 4;
    const bool takes_beta = static_cast<int>(threadIdx.x) < count;
    const RawFour of_beta = p.beta.rows.data == nullptr
                                ? make_uint4(0, 0, 0, 0)
                                : tile.LoadFour(p.beta, first + threadIdx.x, 0, takes_beta);
    for (int i = static_cast<int>(threadIdx.x); i < count * kQuads; i += tile.num_warps * 32) {
      const std::int64_t token = first + i / kQuads;
      const int channel = i % kQuads * 4;
      const RawFour of_k = tile.LoadFour(p.k, token, channel, p.head_k_dim);
      const RawFour of_a = tile.LoadFour(p.a, token, channel, p.head_k_dim);
      const RawFour of_b = tile.LoadFour(p.b, token, channel, p.head_k_dim);
      const RawFour of_q = tile.LoadFour(p.q, token, channel, p.head_k_dim);
      const RawFour of_decay = LoadDecays(tile, token, channel);
      reinterpret_cast<float4*>(k)[i] = Unpack(p.k, of_k);
      reinterpret_cast<float4*>(a)[i] = Unpack(p.a, of_a);
      reinterpret_cast<float4*>(q)[i] =
          Map(Unpack(p.q, of_q), [&](float value) { return p.scale * value; });
      const float4 decays =
          Map(Unpack(p.log_decay, of_decay), [](float value) { return expf(value); });
      float4 recalling = Unpack(p.b, of_b);
      if (p.recalls_decayed) {
        recalling = make_float4(recalling.x * decays.x, recalling.y * decays.y,
                                recalling.z * decays.z, recalling.w * decays.w);
      }
      reinterpret_cast<float4*>(decay)[i] = decays;
      reinterpret_cast<float4*>(b)[i] = recalling;
    }
    if (takes_beta) {
      beta[threadIdx.x] = p.beta.rows.data == nullptr ? 1.0f : Unpack(p.beta, of_beta).x;
    }
  }

 private:
  // Log decays of four channels; zeros where there are none.
  __device__ static RawFour LoadDecays(const ScanTile<kKeys>& tile, std::int64_t token,
                                       int channel) {
    const TokenScanProblem& p = tile.p;
    if (p.decay_kind == DecayKind::kNone) return make_uint4(0, 0, 0, 0);
    if (p.decay_kind == DecayKind::kOfChannel) {
      return tile.LoadFour(p.log_decay, token, channel, p.head_k_dim);
    }
    const std::uint32_t same = tile.LoadFour(p.log_decay, token, 0, 1).x;
    return make_uint4(same, same, same, same);
  }

  template <typename Function>
  __device__ static float4 Map(float4 x, const Function& f) {
    return make_float4(f(x.x), f(x.y), f(x.z), f(x.w));
  }
};

// S = diag(decay) S - a u^T + k v^T in one row of a lane.
template <int kColumns>
__device__ inline void Step(float (&s)[kColumns], float decay, float a, float k,
                            const float (&u)[kColumns], const float (&v)[kColumns]) {
#pragma unroll
  for (int c = 0; c < kColumns; ++c) s[c] = fmaf(k, v[c], fmaf(-a, u[c], decay * s[c]));
}

}  // namespace mixerbench::kernels::dplr
