// The selective scan, forward.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/linear_attention/selective_scan/selective_scan_device.cuh"
#include "kernels/linear_attention/selective_scan/selective_scan_kernels.h"

namespace mixerbench::kernels::selective_scan {
namespace {

// On a multiprocessor. A thread waits at every token; what its 32 registers do not hold, it needs
// once a chunk.
constexpr int kThreadsInFlight = 2048;

// A CTA owns up to kChannels channels of one group of one sequence for all tokens, a
// thread four states of one of them in registers, fp32. Chunk by chunk it brings inputs to shared
// memory as fp32, scans them token by token, and writes the results. No atomics, no order that
// varies.
template <typename T, int kLanes>
__global__ void __launch_bounds__(ChannelTile<kLanes>::kThreads,
                                  kThreadsInFlight / ChannelTile<kLanes>::kThreads)
    ForwardKernel(const ScanProblem p) {
  using Tile = ChannelTile<kLanes>;
  __shared__ float s_u[Tile::kChunk][Tile::kChannels];
  __shared__ float s_step[Tile::kChunk][Tile::kChannels];
  __shared__ float s_y[Tile::kChunk][Tile::kChannels];
  __shared__ __align__(16) float s_B[Tile::kChunk][Tile::kStates];
  __shared__ __align__(16) float s_C[Tile::kChunk][Tile::kStates];

  const Tile tile(p);
  const int channel = threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  const bool exists = channel < tile.num_channels;
  const std::int64_t of_model = tile.first_channel + channel;
  const std::int64_t of_batch = tile.batch * p.num_channels + of_model;
  const std::int64_t num_chunks = (p.seq_len + Tile::kChunk - 1) / Tile::kChunk;

  const T* u = tile.template Channels<const T>(p.u);
  const T* delta = tile.template Channels<const T>(p.delta);
  const T* z = p.z.data == nullptr ? nullptr : tile.template Channels<const T>(p.z);
  const T* B = tile.template States<const T>(p.B);
  const T* C = tile.template States<const T>(p.C);
  T* o = tile.template Channels<T>(p.o);

  float exponent[kStatesPerThread];  // A log2(e), 0 of what does not exist
  float h[kStatesPerThread];
  LoadStates(exponent, p.A_log + of_model * p.state_size, lane, p.state_size, exists);
  LoadStates(h, p.initial_state == nullptr ? nullptr : p.initial_state + of_batch * p.state_size,
             lane, p.state_size, exists);
#pragma unroll
  for (float& a : exponent) a = -expf(a) * kLog2E;

  for (std::int64_t n = 0; n < num_chunks; ++n) {
    const std::int64_t first = n * Tile::kChunk;
    const int count = static_cast<int>(min(p.seq_len - first, std::int64_t{Tile::kChunk}));
    __syncthreads();
    Tile::ForEachChannel(count, [&](int t, int c) {
      const bool valid = c < tile.num_channels;
      const float bias =
          valid && p.delta_bias != nullptr ? p.delta_bias[tile.first_channel + c] : 0;
      s_u[t][c] = valid ? ToFloat(u[(first + t) * p.u.token_stride + c]) : 0;
      s_step[t][c] =
          valid ? Softplus(ToFloat(delta[(first + t) * p.delta.token_stride + c]) + bias) : 0;
    });
    Tile::ForEachState(count, [&](int t, int state) {
      const bool valid = state < p.state_size;
      s_B[t][state] = valid ? ToFloat(B[(first + t) * p.B.token_stride + state]) : 0;
      s_C[t][state] = valid ? ToFloat(C[(first + t) * p.C.token_stride + state]) : 0;
    });
    __syncthreads();

    if (p.states != nullptr && exists) {
      float* entering =
          p.states + ((tile.batch * num_chunks + n) * p.num_channels + of_model) * Tile::kStates;
      reinterpret_cast<float4*>(entering)[lane] = make_float4(h[0], h[1], h[2], h[3]);
    }
#pragma unroll 4
    for (int t = 0; t < count; ++t) {
      const float step = s_step[t][channel];
      const float write = step * s_u[t][channel];
      const float4 b = reinterpret_cast<const float4*>(s_B[t])[lane];
      const float4 c = reinterpret_cast<const float4*>(s_C[t])[lane];
      h[0] = device::Exp2(step * exponent[0]) * h[0] + write * b.x;
      h[1] = device::Exp2(step * exponent[1]) * h[1] + write * b.y;
      h[2] = device::Exp2(step * exponent[2]) * h[2] + write * b.z;
      h[3] = device::Exp2(step * exponent[3]) * h[3] + write * b.w;
      const float y = SumLanes<kLanes>(h[0] * c.x + h[1] * c.y + h[2] * c.z + h[3] * c.w);
      if (lane == 0) s_y[t][channel] = y;
    }
    __syncthreads();

    Tile::ForEachChannel(count, [&](int t, int c) {
      if (c >= tile.num_channels) return;
      float y = s_y[t][c];
      if (p.D != nullptr) y += p.D[tile.first_channel + c] * s_u[t][c];
      if (z != nullptr) {
        const float gate = ToFloat(z[(first + t) * p.z.token_stride + c]);
        y *= gate * Sigmoid(gate);
      }
      Store(o + (first + t) * p.o.token_stride + c, y);
    });
  }
  if (exists) StoreStates(p.final_state + of_batch * p.state_size, h, lane, p.state_size);
}

}  // namespace

int ScanForward(const ScanProblem& p, CUstream_st* stream) {
  return ForLanes(p, [&](auto lanes) -> int {
    constexpr int kLanes = decltype(lanes)::value;
    const auto kernel =
        p.is_bf16 ? ForwardKernel<__nv_bfloat16, kLanes> : ForwardKernel<float, kLanes>;
    return device::Launch(kernel, NumBlocks(p), ChannelTile<kLanes>::kThreads, 0, stream, p);
  });
}

}  // namespace mixerbench::kernels::selective_scan
