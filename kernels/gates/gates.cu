// The decay of GLA from its logits and the gated linear unit: one pass over memory each way.
//
// Elementwise kernels; a thread owns eight neighbouring elements, or one of rows that are not
// aligned. fp32 arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/gates/gates.cuh"

namespace mixerbench::kernels {
namespace {

constexpr int kThreads = 256;

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

__device__ long long ThreadIndex() {
  return static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
}

__device__ float Decay(const LogSigmoidDecayArgs& args, float z) {
  const float decay = -Softplus(-z) * args.inverse_temperature;
  return args.floor < 0 && decay < args.floor ? args.floor : decay;
}

// Gradient of logit z, given d, that of its decay.
template <typename T>
__device__ float DecayGradient(const LogSigmoidDecayArgs& args, float z, float d) {
  const float slope = sizeof(T) == 2 ? FastSigmoid(-z) : Sigmoid(-z);
  const bool is_clamped = args.floor < 0 && -Softplus(-z) * args.inverse_temperature < args.floor;
  return is_clamped ? 0 : d * slope * args.inverse_temperature;
}

__global__ void __launch_bounds__(kThreads) LogSigmoidDecayKernel(const LogSigmoidDecayArgs args) {
  const long long i = ThreadIndex();
  if (i >= args.num_rows * args.width) return;
  const long long row = i / args.width;
  const int column = static_cast<int>(i % args.width);
  const float z = LoadOne(args.z, row, column);
  if (args.log_decay != nullptr) {
    args.log_decay[i] = Decay(args, z);
  } else {
    StoreOne(args.d_z, row, column, DecayGradient<float>(args, z, args.d_log_decay[i]));
  }
}

// The same for eight neighbouring elements, all rows aligned and fewer than 2^32 elements.
template <typename T, bool kBackward>
__global__ void __launch_bounds__(kThreads)
    LogSigmoidDecayVectorKernel(const LogSigmoidDecayArgs args) {
  const unsigned vectors = static_cast<unsigned>(args.width / kVector);
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  const long long row = i / vectors;
  if (row >= args.num_rows) return;
  const unsigned column = (i % vectors) * kVector;
  const Packed<T> raw =
      LoadPacked(static_cast<const T*>(args.z.data) + row * args.z.stride + column, true);
  if constexpr (kBackward) {
    const Vector d = LoadFloat(args.d_log_decay + static_cast<long long>(i) * kVector);
    Vector v = raw.Unpack();
#pragma unroll
    for (int j = 0; j < kVector; ++j) v.x[j] = DecayGradient<T>(args, v.x[j], d.x[j]);
    StoreVector(static_cast<T*>(args.d_z.data) + row * args.d_z.stride + column, v);
  } else {
    Vector v = raw.Unpack();
#pragma unroll
    for (float& z : v.x) z = Decay(args, z);
    StoreFloat(args.log_decay + static_cast<long long>(i) * kVector, v);
  }
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

template <bool kBackward>
int LaunchLogSigmoidDecay(const LogSigmoidDecayArgs& args, CUstream_st* stream) {
  const long long elements = args.num_rows * args.width;
  if (!HasVectors(args.z, args.width) || !HasVectors(args.d_z, args.width) ||
      elements >= 1LL << 32) {
    LogSigmoidDecayKernel<<<BlocksFor(elements), kThreads, 0, stream>>>(args);
  } else if (args.z.element == Element::kFloat) {
    LogSigmoidDecayVectorKernel<float, kBackward>
        <<<BlocksFor(elements / kVector), kThreads, 0, stream>>>(args);
  } else {
    LogSigmoidDecayVectorKernel<__nv_bfloat16, kBackward>
        <<<BlocksFor(elements / kVector), kThreads, 0, stream>>>(args);
  }
  return cudaGetLastError();
}

int LaunchSwiglu(const SwigluArgs& args, CUstream_st* stream) {
  SwigluKernel<<<BlocksFor(args.num_rows * (args.width / kVector)), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

int LaunchLogSigmoidDecayForward(const LogSigmoidDecayArgs& args, CUstream_st* stream) {
  return LaunchLogSigmoidDecay<false>(args, stream);
}

int LaunchLogSigmoidDecayBackward(const LogSigmoidDecayArgs& args, CUstream_st* stream) {
  return LaunchLogSigmoidDecay<true>(args, stream);
}

int LaunchSwigluForward(const SwigluArgs& args, CUstream_st* stream) {
  return LaunchSwiglu(args, stream);
}

int LaunchSwigluBackward(const SwigluArgs& args, CUstream_st* stream) {
  return LaunchSwiglu(args, stream);
}

}  // namespace mixerbench::kernels
