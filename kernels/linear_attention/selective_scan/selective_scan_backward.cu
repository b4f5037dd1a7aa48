// The selective scan, backward. Derivation in selective_scan.md.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/linear_attention/selective_scan/selective_scan_device.cuh"
#include "kernels/linear_attention/selective_scan/selective_scan_kernels.h"

namespace mixerbench::kernels::selective_scan {
namespace {

// On a multiprocessor; shared memory ends there.
constexpr int kThreadsInFlight = 1024;

constexpr int kSums = 2 * kStatesPerThread;  // of a lane: of dB and of dC

// Dynamic shared memory of a CTA.
template <int kLanes>
struct SharedMemory {
  using Tile = ChannelTile<kLanes>;
  // a_t h_{t-1} of every thread
  float4 carried[Tile::kChunk][Tile::kThreads];
  // of every warp, what its channels add to dB and dC
  float sums[Tile::kWarps][Tile::kChunk][2][Tile::kStates];
  float B[Tile::kChunk][Tile::kStates];
  float C[Tile::kChunk][Tile::kStates];
  float u[Tile::kChunk][Tile::kChannels];     // later du
  float step[Tile::kChunk][Tile::kChannels];  // later the gradient of its logits
  float d_y[Tile::kChunk][Tile::kChannels];
  float slope[Tile::kChunk][Tile::kChannels];  // of softplus
  float y[Tile::kChunk][Tile::kChannels];
};

// Adds x over the channels of a warp and spreads the sums over its threads: each ends with those
// that begin at the index it returns, kSums / (channels of a warp) of them and one at least, in the
// order of a fixed tree. With more channels than sums, several threads have the same.
template <int kLanes>
__device__ int SumChannels(float (&x)[kSums]) {
  int begin = 0;
  int count = kSums;
#pragma unroll
  for (int mask = 16; mask >= kLanes; mask /= 2) {
    if (count == 1) {
      x[0] += device::ShuffleXor(x[0], mask);
      continue;
    }
    const bool takes_second = (threadIdx.x & mask) != 0;
    count /= 2;
#pragma unroll
    for (int i = 0; i < kSums / 2; ++i) {
      if (i >= count) break;
      const float sent = takes_second ? x[i] : x[i + count];
      const float kept = takes_second ? x[i + count] : x[i];
      x[i] = kept + device::ShuffleXor(sent, mask);
    }
    if (takes_second) begin += count;
  }
  return begin;
}

template <int kLanes>
constexpr int SumsPerThread() {
  const int channels = 32 / kLanes;
  return channels >= kSums ? 1 : kSums / channels;
}

// A CTA owns the channels that it has in the forward pass, and takes the chunks from
// the last to the first: it scans a chunk again from the state that entered it, keeps what each
// token carried over in shared memory, and runs the adjoint recurrence backwards with its value in
// registers, fp32. What many channels add to, dB and dC, leaves as sums over the block; parameters
// as sums over time. No atomics.
template <typename T, int kLanes>
__global__ void __launch_bounds__(ChannelTile<kLanes>::kThreads,
                                  kThreadsInFlight / ChannelTile<kLanes>::kThreads)
    BackwardKernel(const ScanProblem p) {
  using Tile = ChannelTile<kLanes>;
  extern __shared__ __align__(16) char memory[];
  auto& s = *reinterpret_cast<SharedMemory<kLanes>*>(memory);

  const Tile tile(p);
  const int channel = threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  const int warp = threadIdx.x / 32;
  const bool exists = channel < tile.num_channels;
  const std::int64_t of_model = tile.first_channel + channel;
  const std::int64_t of_batch = tile.batch * p.num_channels + of_model;
  const std::int64_t num_chunks = (p.seq_len + Tile::kChunk - 1) / Tile::kChunk;

  const T* u = tile.template Channels<const T>(p.u);
  const T* delta = tile.template Channels<const T>(p.delta);
  const T* z = p.z.data == nullptr ? nullptr : tile.template Channels<const T>(p.z);
  const T* B = tile.template States<const T>(p.B);
  const T* C = tile.template States<const T>(p.C);
  const T* d_o = tile.template Channels<const T>(p.d_o);
  T* d_u = tile.template Channels<T>(p.d_u);
  T* d_delta = tile.template Channels<T>(p.d_delta);
  T* d_z = z == nullptr ? nullptr : tile.template Channels<T>(p.d_z);

  float A[kStatesPerThread];
  float g[kStatesPerThread];  // the gradient of the state, carried to the token before
  float d_A_log[kStatesPerThread] = {};
  float d_D = 0;
  float d_bias = 0;
  LoadStates(A, p.A_log + of_model * p.state_size, lane, p.state_size, exists);
  LoadStates(g, p.d_final_state == nullptr ? nullptr : p.d_final_state + of_batch * p.state_size,
             lane, p.state_size, exists);
#pragma unroll
  for (float& a : A) a = -expf(a);
  const float D = exists && p.D != nullptr ? p.D[of_model] : 0;

  for (std::int64_t n = num_chunks - 1; n >= 0; --n) {
    const std::int64_t first = n * Tile::kChunk;
    const int count = static_cast<int>(min(p.seq_len - first, std::int64_t{Tile::kChunk}));
    __syncthreads();
    Tile::ForEachChannel(count, [&](int t, int c) {
      const bool valid = c < tile.num_channels;
      const float bias =
          valid && p.delta_bias != nullptr ? p.delta_bias[tile.first_channel + c] : 0;
      s.u[t][c] = valid ? ToFloat(u[(first + t) * p.u.token_stride + c]) : 0;
      const float logit = valid ? ToFloat(delta[(first + t) * p.delta.token_stride + c]) + bias : 0;
      s.step[t][c] = valid ? Softplus(logit) : 0;
      s.slope[t][c] = Sigmoid(logit);
      float d_y = valid ? ToFloat(d_o[(first + t) * p.d_o.token_stride + c]) : 0;
      if (z != nullptr && valid) {
        const float gate = ToFloat(z[(first + t) * p.z.token_stride + c]);
        d_y *= gate * Sigmoid(gate);
      }
      s.d_y[t][c] = d_y;
    });
    Tile::ForEachState(count, [&](int t, int state) {
      const bool valid = state < p.state_size;
      s.B[t][state] = valid ? ToFloat(B[(first + t) * p.B.token_stride + state]) : 0;
      s.C[t][state] = valid ? ToFloat(C[(first + t) * p.C.token_stride + state]) : 0;
    });
    __syncthreads();

    float4 h = make_float4(0, 0, 0, 0);
    if (exists) {
      h = reinterpret_cast<const float4*>(
          p.states +
          ((tile.batch * num_chunks + n) * p.num_channels + of_model) * Tile::kStates)[lane];
    }
    for (int t = 0; t < count; ++t) {
      const float step = s.step[t][channel];
      const float scaled = step * kLog2E;
      const float write = step * s.u[t][channel];
      const float4 b = reinterpret_cast<const float4*>(s.B[t])[lane];
      h.x *= device::Exp2(scaled * A[0]);
      h.y *= device::Exp2(scaled * A[1]);
      h.z *= device::Exp2(scaled * A[2]);
      h.w *= device::Exp2(scaled * A[3]);
      s.carried[t][threadIdx.x] = h;
      h.x += write * b.x;
      h.y += write * b.y;
      h.z += write * b.z;
      h.w += write * b.w;
      if (z != nullptr) {
        const float4 c = reinterpret_cast<const float4*>(s.C[t])[lane];
        const float y = SumLanes<kLanes>(h.x * c.x + h.y * c.y + h.z * c.z + h.w * c.w);
        if (lane == 0) s.y[t][channel] = y + D * s.u[t][channel];
      }
    }
    if (z != nullptr) {
      __syncthreads();
      Tile::ForEachChannel(count, [&](int t, int c) {
        if (c >= tile.num_channels) return;
        const float gate = ToFloat(z[(first + t) * p.z.token_stride + c]);
        const float sigmoid = Sigmoid(gate);
        const float out = ToFloat(d_o[(first + t) * p.d_o.token_stride + c]);
        Store(d_z + (first + t) * p.d_z.token_stride + c,
              out * s.y[t][c] * sigmoid * (1 + gate * (1 - sigmoid)));
      });
    }

    for (int t = count - 1; t >= 0; --t) {
      const float step = s.step[t][channel];
      const float value = s.u[t][channel];
      const float d_y = s.d_y[t][channel];
      const float write = step * value;
      const float4 b4 = reinterpret_cast<const float4*>(s.B[t])[lane];
      const float4 c4 = reinterpret_cast<const float4*>(s.C[t])[lane];
      const float4 carried4 = s.carried[t][threadIdx.x];
      const float b[] = {b4.x, b4.y, b4.z, b4.w};
      const float c[] = {c4.x, c4.y, c4.z, c4.w};
      const float carried[] = {carried4.x, carried4.y, carried4.z, carried4.w};
      float sums[kSums];  // of dB, of dC
      float d_write = 0;
      float d_step = 0;
#pragma unroll
      for (int j = 0; j < kStatesPerThread; ++j) {
        g[j] += d_y * c[j];
        sums[j] = g[j] * write;
        sums[kStatesPerThread + j] = d_y * (carried[j] + write * b[j]);
        d_write += g[j] * b[j];
        const float d_exponent = g[j] * carried[j];
        d_step += d_exponent * A[j];
        d_A_log[j] += d_exponent * step;
        g[j] *= device::Exp2(step * kLog2E * A[j]);
      }
      d_write = SumLanes<kLanes>(d_write);
      d_step = SumLanes<kLanes>(d_step) + value * d_write;
      const float d_logit = d_step * s.slope[t][channel];
      d_D += d_y * value;
      d_bias += d_logit;

      const int begin = SumChannels<kLanes>(sums);
#pragma unroll
      for (int i = 0; i < SumsPerThread<kLanes>(); ++i) {
        const int sum = begin + i;
        s.sums[warp][t][sum / kStatesPerThread][lane * kStatesPerThread + sum % kStatesPerThread] =
            sums[i];
      }
      // All lanes of this channel have read what is replaced: they met in the sums.
      if (lane == 0) {
        s.u[t][channel] = D * d_y + step * d_write;
        s.step[t][channel] = d_logit;
      }
    }
    __syncthreads();

    Tile::ForEachChannel(count, [&](int t, int c) {
      if (c >= tile.num_channels) return;
      Store(d_u + (first + t) * p.d_u.token_stride + c, s.u[t][c]);
      Store(d_delta + (first + t) * p.d_delta.token_stride + c, s.step[t][c]);
    });
    for (int i = threadIdx.x; i < count * 2 * Tile::kStates; i += Tile::kThreads) {
      const int t = i / (2 * Tile::kStates);
      const int column = i % (2 * Tile::kStates);
      float sum = 0;
#pragma unroll
      for (int w = 0; w < Tile::kWarps; ++w) {
        sum += s.sums[w][t][column / Tile::kStates][column % Tile::kStates];
      }
      const std::int64_t token = tile.batch * p.seq_len + first + t;
      p.block_sums[((token * p.num_groups + tile.group) * tile.num_blocks + tile.block) *
                       (2 * Tile::kStates) +
                   column] = sum;
    }
  }

  if (!exists) return;
#pragma unroll
  for (int j = 0; j < kStatesPerThread; ++j) d_A_log[j] *= A[j];
  reinterpret_cast<float4*>(p.d_A_log + of_batch * Tile::kStates)[lane] =
      make_float4(d_A_log[0], d_A_log[1], d_A_log[2], d_A_log[3]);
  if (lane == 0) {
    p.d_D[of_batch] = d_D;
    p.d_delta_bias[of_batch] = d_bias;
  }
  if (p.d_initial_state != nullptr) {
    StoreStates(p.d_initial_state + of_batch * p.state_size, g, lane, p.state_size);
  }
}

// A thread owns one element of dB or dC of one token and group.
template <typename T>
__global__ void SumBlocksKernel(const ScanProblem p, int num_blocks, int padded_states) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int columns = 2 * padded_states;
  const std::int64_t row = index / columns;  // of [B,T,G]
  const int column = static_cast<int>(index % columns);
  const int state = column % padded_states;
  if (row >= p.batch_size * p.seq_len * p.num_groups || state >= p.state_size) return;
  float sum = 0;
  for (int block = 0; block < num_blocks; ++block) {
    sum += p.block_sums[(row * num_blocks + block) * columns + column];
  }
  const device::Sequence& d = column < padded_states ? p.d_B : p.d_C;
  const std::int64_t token = row / p.num_groups;
  Store(static_cast<T*>(d.data) + token / p.seq_len * d.batch_stride +
            token % p.seq_len * d.token_stride + row % p.num_groups * d.head_stride + state,
        sum);
}

}  // namespace

int ScanBackward(const ScanProblem& p, CUstream_st* stream) {
  return ForLanes(p, [&](auto lanes) -> int {
    constexpr int kLanes = decltype(lanes)::value;
    const auto kernel =
        p.is_bf16 ? BackwardKernel<__nv_bfloat16, kLanes> : BackwardKernel<float, kLanes>;
    return device::Launch(kernel, NumBlocks(p), ChannelTile<kLanes>::kThreads,
                          sizeof(SharedMemory<kLanes>), stream, p);
  });
}

int SumBlocks(const ScanProblem& p, CUstream_st* stream) {
  constexpr int kThreads = 256;
  const ScanLayout layout = p.layout();
  const std::int64_t elements =
      p.batch_size * p.seq_len * p.num_groups * 2 * layout.padded_states();
  const auto kernel = p.is_bf16 ? SumBlocksKernel<__nv_bfloat16> : SumBlocksKernel<float>;
  return device::Launch(kernel, (elements + kThreads - 1) / kThreads, kThreads, 0, stream, p,
                        static_cast<int>(layout.BlocksPerGroup(p.num_channels / p.num_groups)),
                        layout.padded_states());
}

}  // namespace mixerbench::kernels::selective_scan
