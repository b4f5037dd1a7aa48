// Rotary position embedding: a thread owns four channel pairs of one position and head, whose
// angles it forms once, and scans the sequences of the batch. One read and one write of x.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include "kernels/rope/rotary_cuda.h"

namespace mixerbench::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPairs = 4;           // a thread's channel pairs
constexpr int kUnroll = 4;          // sequences whose loads are issued together
constexpr int kWantedBlocks = 528;  // four for each multiprocessor of the largest GPUs

// Four neighbouring channels as they lie in memory.
template <typename T>
struct Quad;

template <>
struct Quad<float> {
  float4 raw;
  __device__ void Unpack(float (&x)[kPairs]) const {
    x[0] = raw.x, x[1] = raw.y, x[2] = raw.z, x[3] = raw.w;
  }
  __device__ static Quad Pack(const float (&x)[kPairs]) {
    return {make_float4(x[0], x[1], x[2], x[3])};
  }
};

template <>
struct Quad<__nv_bfloat16> {
  __nv_bfloat162 low, high;
  __device__ void Unpack(float (&x)[kPairs]) const {
    const float2 a = __bfloat1622float2(low);
    const float2 b = __bfloat1622float2(high);
    x[0] = a.x, x[1] = a.y, x[2] = b.x, x[3] = b.y;
  }
  __device__ static Quad Pack(const float (&x)[kPairs]) {
    return {__floats2bfloat162_rn(x[0], x[1]), __floats2bfloat162_rn(x[2], x[3])};
  }
};

// Cosine and sine of `angle`, brought into [-pi, pi] in float64.
__device__ void Direction(double angle, float& cosine, float& sine) {
  constexpr double kTurn = 6.283185307179586476925;
  sincosf(static_cast<float>(angle - kTurn * rint(angle / kTurn)), &sine, &cosine);
}

template <typename T>
__device__ Quad<T> LoadQuad(const ConstRows& rows, long long row, int channel) {
  return *reinterpret_cast<const Quad<T>*>(static_cast<const T*>(rows.data) + row * rows.stride +
                                           channel);
}

template <typename T>
__device__ void StoreQuad(const Rows& rows, long long row, int channel, const Quad<T>& x) {
  *reinterpret_cast<Quad<T>*>(static_cast<T*>(rows.data) + row * rows.stride + channel) = x;
}

// The quads of a head: those that turn are of the first half of its rotary_dim channels, then come
// those that pass.
struct Quads {
  int turning, all;

  __host__ __device__ explicit Quads(const RotaryArgs& args)
      : turning(args.rotary_dim / (2 * kPairs)),
        all(turning + (args.head_dim - args.rotary_dim) / kPairs) {}
};

// Grid: threads of one sequence by parts of the batch.
template <typename T>
__global__ void __launch_bounds__(kThreads) RotaryKernel(const RotaryArgs args) {
  const Quads quads(args);
  const int per_row = args.num_heads * quads.all;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const int position = static_cast<int>(i / per_row);
  if (position >= args.seq_len) return;
  const int head = static_cast<int>(i % per_row) / quads.all;
  const int quad = static_cast<int>(i % per_row) % quads.all;
  const bool turns = quad < quads.turning;
  const int half = args.rotary_dim / 2;
  const int channel = head * args.head_dim + (turns ? quad * kPairs : half + quad * kPairs);

  float cosine[kPairs];
  float sine[kPairs];
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const double exponent = -2.0 * (quad * kPairs + j) / args.rotary_dim;
    const double frequency = turns ? exp(exponent * log(args.base)) : 0;
    const double angle = (args.first_position + position) * frequency;
    Direction(args.back ? -angle : angle, cosine[j], sine[j]);
  }

  const long long step = static_cast<long long>(gridDim.y) * kUnroll;
  for (long long first = static_cast<long long>(blockIdx.y) * kUnroll; first < args.batch_size;
       first += step) {
    Quad<T> a[kUnroll];
    Quad<T> b[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (first + u >= args.batch_size) break;
      const long long row = (first + u) * args.seq_len + position;
      a[u] = LoadQuad<T>(args.x, row, channel);
      if (turns) b[u] = LoadQuad<T>(args.x, row, channel + half);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (first + u >= args.batch_size) break;
      const long long row = (first + u) * args.seq_len + position;
      if (!turns) {
        StoreQuad(args.y, row, channel, a[u]);
        continue;
      }
      float x[kPairs];
      float y[kPairs];
      a[u].Unpack(x);
      b[u].Unpack(y);
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const float turned = x[j] * cosine[j] - y[j] * sine[j];
        y[j] = y[j] * cosine[j] + x[j] * sine[j];
        x[j] = turned;
      }
      StoreQuad(args.y, row, channel, Quad<T>::Pack(x));
      StoreQuad(args.y, row, channel + half, Quad<T>::Pack(y));
    }
  }
}

}  // namespace

int LaunchRotary(const RotaryArgs& args, CUstream_st* stream) {
  const long long threads = static_cast<long long>(args.seq_len) * args.num_heads * Quads(args).all;
  const long long blocks = (threads + kThreads - 1) / kThreads;
  const long long batch_steps = (args.batch_size + kUnroll - 1) / kUnroll;
  const long long parts =
      std::clamp<long long>((kWantedBlocks + blocks - 1) / blocks, 1, batch_steps);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(parts));
  if (args.x.element == Element::kFloat) {
    RotaryKernel<float><<<grid, kThreads, 0, stream>>>(args);
  } else {
    RotaryKernel<__nv_bfloat16><<<grid, kThreads, 0, stream>>>(args);
  }
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels
