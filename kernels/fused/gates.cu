// Gates of the mixers and the gated linear unit: one pass over memory each way.
//
// Elementwise kernels; a thread owns one element (gates: their rows are a few elements long) or
// eight (SwiGLU). Sums over rows for A_log and dt_bias are formed by a fixed number of blocks and
// added in order by SumRowsKernel. fp32 arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/fused/gates_device.h"
#include "kernels/fused/sum_rows.h"
#include "kernels/fused/vector_io.cuh"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxPartials = 264;

__device__ float LoadOne(const ConstRows& rows, long long row, int column) {
  const long long index = row * rows.stride + column;
  return rows.element == Element::kFloat
             ? static_cast<const float*>(rows.data)[index]
             : __bfloat162float(static_cast<const __nv_bfloat16*>(rows.data)[index]);
}

__device__ void StoreOne(const Rows& rows, long long row, int column, float x) {
  const long long index = row * rows.stride + column;
  if (rows.element == Element::kFloat) {
    static_cast<float*>(rows.data)[index] = x;
  } else {
    static_cast<__nv_bfloat16*>(rows.data)[index] = __float2bfloat16_rn(x);
  }
}

__device__ float Sigmoid(float x) { return 1 / (1 + expf(-x)); }
// log(1 + e^x) without overflow.
__device__ float Softplus(float x) { return fmaxf(x, 0) + log1pf(expf(-fabsf(x))); }

__device__ long long ThreadIndex() {
  return static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
}

// The decay of logit z, or with `d` not null the gradient of z.
__device__ float DecayOrGradient(const LogSigmoidDecayArgs& args, float z, const float* d) {
  const float decay = -Softplus(-z) * args.inverse_temperature;
  const bool clamped = args.floor < 0 && decay < args.floor;
  if (d == nullptr) return clamped ? args.floor : decay;
  return clamped ? 0 : *d * Sigmoid(-z) * args.inverse_temperature;
}

__global__ void __launch_bounds__(kThreads) LogSigmoidDecayKernel(const LogSigmoidDecayArgs args) {
  const long long i = ThreadIndex();
  if (i >= args.num_rows * args.width) return;
  const long long row = i / args.width;
  const int column = static_cast<int>(i % args.width);
  const float z = LoadOne(args.z, row, column);
  if (args.log_decay != nullptr) {
    args.log_decay[i] = DecayOrGradient(args, z, nullptr);
  } else {
    StoreOne(args.d_z, row, column, DecayOrGradient(args, z, args.d_log_decay + i));
  }
}

// The same for eight neighbouring elements, all rows aligned.
__global__ void __launch_bounds__(kThreads)
    LogSigmoidDecayVectorKernel(const LogSigmoidDecayArgs args) {
  const int vectors = args.width / kVector;
  const long long i = ThreadIndex();
  if (i >= args.num_rows * vectors) return;
  const long long row = i / vectors;
  const long long column = (i - row * vectors) * kVector;
  Vector v = Load(args.z.data, args.z.element, row * args.z.stride + column);
  if (args.log_decay != nullptr) {
#pragma unroll
    for (float& z : v.x) z = DecayOrGradient(args, z, nullptr);
    StoreFloat(args.log_decay + i * kVector, v);
    return;
  }
  const Vector d = LoadFloat(args.d_log_decay + i * kVector);
#pragma unroll
  for (int j = 0; j < kVector; ++j) v.x[j] = DecayOrGradient(args, v.x[j], &d.x[j]);
  Store(args.d_z.data, args.d_z.element, row * args.d_z.stride + column, v);
}

__global__ void __launch_bounds__(kThreads)
    DeltaGatesForwardKernel(const DeltaGatesDeviceArgs args) {
  const long long i = ThreadIndex();
  if (i >= args.num_rows * args.num_heads) return;
  const long long row = i / args.num_heads;
  const int head = static_cast<int>(i % args.num_heads);
  args.beta[i] = args.beta_scale * Sigmoid(LoadOne(args.z, row, head));
  if (args.A_log == nullptr) return;
  const float z = LoadOne(args.z, row, args.num_heads + head) + args.dt_bias[head];
  args.log_decay[i] = -expf(args.A_log[head]) * Softplus(z);
}

// Threads 0, H, 2H, ... of a block own head 0, and so on; the last ones that fill no row are idle.
__global__ void __launch_bounds__(kThreads)
    DeltaGatesBackwardKernel(const DeltaGatesDeviceArgs args) {
  __shared__ float sums[2][kThreads];
  const int heads = args.num_heads;
  const int thread = static_cast<int>(threadIdx.x);
  const int head = thread % heads;
  const int rows_per_block = kThreads / heads;
  float d_A_log = 0;
  float d_dt_bias = 0;
  if (thread < rows_per_block * heads) {
    for (long long row = static_cast<long long>(blockIdx.x) * rows_per_block + thread / heads;
         row < args.num_rows; row += static_cast<long long>(gridDim.x) * rows_per_block) {
      const long long i = row * heads + head;
      const float beta = Sigmoid(LoadOne(args.z, row, head));
      const float d_beta = args.d_beta == nullptr ? 0 : args.d_beta[i];
      StoreOne(args.d_z, row, head, d_beta * args.beta_scale * beta * (1 - beta));
      if (args.A_log == nullptr) continue;
      const float z = LoadOne(args.z, row, heads + head) + args.dt_bias[head];
      const float A = expf(args.A_log[head]);
      const float d = args.d_log_decay == nullptr ? 0 : args.d_log_decay[i];
      const float d_z = -A * Sigmoid(z) * d;
      StoreOne(args.d_z, row, heads + head, d_z);
      d_A_log -= A * Softplus(z) * d;
      d_dt_bias += d_z;
    }
  }
  if (args.A_log == nullptr) return;
  sums[0][thread] = d_A_log;
  sums[1][thread] = d_dt_bias;
  __syncthreads();
  if (thread >= 2 * heads) return;
  float sum = 0;
  for (int row = 0; row < rows_per_block; ++row) {
    sum += sums[thread / heads][row * heads + thread % heads];
  }
  args.partials[static_cast<long long>(blockIdx.x) * 2 * heads + thread] = sum;
}

__global__ void __launch_bounds__(kThreads) SwigluKernel(const SwigluArgs args) {
  const int vectors = args.width / kVector;
  const long long i = ThreadIndex();
  if (i >= args.num_rows * vectors) return;
  const long long row = i / vectors;
  const int column = static_cast<int>(i % vectors) * kVector;
  const long long index = row * args.x.stride + column;
  const Vector a = Load(args.x.data, args.x.element, index);
  const Vector b = Load(args.x.data, args.x.element, index + args.width);
  Vector sigmoid;
#pragma unroll
  for (int j = 0; j < kVector; ++j) sigmoid.x[j] = 1 / (1 + __expf(-a.x[j]));
  if (args.y.data != nullptr) {
    Vector y;
#pragma unroll
    for (int j = 0; j < kVector; ++j) y.x[j] = a.x[j] * sigmoid.x[j] * b.x[j];
    Store(args.y.data, args.y.element, row * args.y.stride + column, y);
    return;
  }
  const Vector d = Load(args.d_y.data, args.d_y.element, row * args.d_y.stride + column);
  Vector d_a;
  Vector d_b;
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    d_a.x[j] = d.x[j] * b.x[j] * sigmoid.x[j] * (1 + a.x[j] * (1 - sigmoid.x[j]));
    d_b.x[j] = d.x[j] * a.x[j] * sigmoid.x[j];
  }
  const long long d_index = row * args.d_x.stride + column;
  Store(args.d_x.data, args.d_x.element, d_index, d_a);
  Store(args.d_x.data, args.d_x.element, d_index + args.width, d_b);
}

unsigned BlocksFor(long long threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

template <typename AnyRows>
bool HasVectors(const AnyRows& rows, int width) {
  const int element_size = rows.element == Element::kFloat ? 4 : 2;
  return rows.data == nullptr || (reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 &&
                                  rows.stride * element_size % 16 == 0 && width % kVector == 0);
}

int LaunchLogSigmoidDecay(const LogSigmoidDecayArgs& args, CUstream_st* stream) {
  if (HasVectors(args.z, args.width) && HasVectors(args.d_z, args.width)) {
    LogSigmoidDecayVectorKernel<<<BlocksFor(args.num_rows * (args.width / kVector)), kThreads, 0,
                                  stream>>>(args);
  } else {
    LogSigmoidDecayKernel<<<BlocksFor(args.num_rows * args.width), kThreads, 0, stream>>>(args);
  }
  return cudaGetLastError();
}

int LaunchSwiglu(const SwigluArgs& args, CUstream_st* stream) {
  SwigluKernel<<<BlocksFor(args.num_rows * (args.width / kVector)), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

int LaunchLogSigmoidDecayForward(const LogSigmoidDecayArgs& args, CUstream_st* stream) {
  return LaunchLogSigmoidDecay(args, stream);
}

int LaunchLogSigmoidDecayBackward(const LogSigmoidDecayArgs& args, CUstream_st* stream) {
  return LaunchLogSigmoidDecay(args, stream);
}

int DeltaGatesPartials(long long num_rows) {
  return static_cast<int>(
      std::clamp<long long>((num_rows + kThreads - 1) / kThreads, 1, kMaxPartials));
}

int LaunchDeltaGatesForward(const DeltaGatesDeviceArgs& args, CUstream_st* stream) {
  DeltaGatesForwardKernel<<<BlocksFor(args.num_rows * args.num_heads), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

int LaunchDeltaGatesBackward(const DeltaGatesDeviceArgs& args, CUstream_st* stream) {
  const int parts = DeltaGatesPartials(args.num_rows);
  DeltaGatesBackwardKernel<<<static_cast<unsigned>(parts), kThreads, 0, stream>>>(args);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess || args.A_log == nullptr) return status;
  return LaunchSumRows(args.partials, parts, 2 * args.num_heads, args.d_parameters, stream);
}

int LaunchSwigluForward(const SwigluArgs& args, CUstream_st* stream) {
  return LaunchSwiglu(args, stream);
}

int LaunchSwigluBackward(const SwigluArgs& args, CUstream_st* stream) {
  return LaunchSwiglu(args, stream);
}

}  // namespace mixerbench::kernels::fused
