// Gates of the delta rules, forward and backward: one pass over memory each way.
//
// These are a few columns of a wide matrix, so that latency is all there is: a thread loads what it
// needs of a row at once and stores d_z and the zeros after it in 16 bytes. Sums over rows for
// A_log and dt_bias are formed by a fixed number of blocks and added in order by SumRowsKernel.
// fp32 arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/fused/dependent_launch.cuh"
#include "kernels/fused/gates.cuh"
#include "kernels/fused/sum_rows.h"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxPartials = 264;

__device__ long long FirstRow() {
  return static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
}

// The columns of z (then padding) that a thread of the kernels below owns in a row: those of gates
// are few, so that one thread usually has all. blockIdx.y counts threads of a row.
struct GateColumns {
  int heads;
  int gates;  // columns of z
  int first;

  explicit __device__ GateColumns(const DeltaGatesDeviceArgs& args)
      : heads(args.num_heads),
        gates(args.A_log == nullptr ? heads : 2 * heads),
        first(static_cast<int>(blockIdx.y) * kVector) {}

  __device__ bool IsGate(int j) const { return first + j < gates; }
  __device__ bool IsDecay(int j) const { return IsGate(j) && first + j >= heads; }
  __device__ int Head(int j) const { return first + j - (IsDecay(j) ? heads : 0); }

  // Zeros past the last; all loads are in flight at once.
  template <typename T>
  __device__ Vector Load(const ConstRows& z, long long row) const {
    const T* source = static_cast<const T*>(z.data) + row * z.stride + first;
    T raw[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) raw[j] = IsGate(j) ? source[j] : T(0.0f);
    Vector v;
#pragma unroll
    for (int j = 0; j < kVector; ++j) v.x[j] = static_cast<float>(raw[j]);
    return v;
  }

  // The decays' entries of a parameter.
  __device__ Vector Parameter(const float* parameter) const {
    Vector v;
#pragma unroll
    for (int j = 0; j < kVector; ++j) v.x[j] = IsDecay(j) ? parameter[Head(j)] : 0;
    return v;
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    DeltaGatesForwardKernel(const DeltaGatesDeviceArgs args) {
  const GateColumns columns(args);
  const long long row = FirstRow();
  if (row >= args.num_rows) return;
  const Vector z = columns.Load<T>(args.z, row);
  const Vector A_log = columns.Parameter(args.A_log);
  const Vector dt_bias = columns.Parameter(args.dt_bias);
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    if (!columns.IsGate(j)) break;
    const long long i = row * columns.heads + columns.Head(j);
    if (columns.IsDecay(j)) {
      args.log_decay[i] = -expf(A_log.x[j]) * Softplus(z.x[j] + dt_bias.x[j]);
    } else {
      args.beta[i] = args.beta_scale * Sigmoid(z.x[j]);
    }
  }
}

// Writes d_z and the zeros of the padding; a block's sums for A_log and dt_bias are its partials.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    DeltaGatesBackwardKernel(const DeltaGatesDeviceArgs args) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float sums[kWarps][2][kVector];
  LetNextStart();
  const GateColumns columns(args);
  const int end = min(columns.gates + args.padding - columns.first, kVector);
  const bool is_whole = end == kVector && HasVectors(args.d_z, kVector);
  const Vector A_log = columns.Parameter(args.A_log);
  const Vector dt_bias = columns.Parameter(args.dt_bias);
  Vector d_A_log = Zeros();
  Vector d_dt_bias = Zeros();
  for (long long row = FirstRow(); row < args.num_rows;
       row += static_cast<long long>(gridDim.x) * kThreads) {
    Vector d;
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      const float* gradient = columns.IsDecay(j) ? args.d_log_decay : args.d_beta;
      d.x[j] = columns.IsGate(j) && gradient != nullptr
                   ? gradient[row * columns.heads + columns.Head(j)]
                   : 0;
    }
    const Vector z = columns.Load<T>(args.z, row);
    Vector d_z;
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      d_z.x[j] = 0;
      if (columns.IsDecay(j)) {
        const float shifted = z.x[j] + dt_bias.x[j];
        const float d_softplus = -expf(A_log.x[j]) * d.x[j];
        d_z.x[j] = d_softplus * Sigmoid(shifted);
        d_A_log.x[j] += d_softplus * Softplus(shifted);
        d_dt_bias.x[j] += d_z.x[j];
      } else if (columns.IsGate(j)) {
        const float beta = Sigmoid(z.x[j]);
        d_z.x[j] = d.x[j] * args.beta_scale * beta * (1 - beta);
      }
    }
    T* target = static_cast<T*>(args.d_z.data) + row * args.d_z.stride + columns.first;
    if (is_whole) {
      StoreVector(target, d_z);
    } else {
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        if (j < end) target[j] = T(d_z.x[j]);
      }
    }
  }
  if (args.A_log == nullptr) return;
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    if (!columns.IsDecay(j)) continue;
    const float parts[] = {GroupSum(d_A_log.x[j], 32), GroupSum(d_dt_bias.x[j], 32)};
    if (thread % 32 < 2) sums[thread / 32][thread % 32][j] = parts[thread % 32];
  }
  __syncthreads();
  const int parameter = thread / kVector;
  const int j = thread % kVector;
  if (parameter >= 2 || !columns.IsDecay(j)) return;
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += sums[warp][parameter][j];
  args.partials[(static_cast<long long>(blockIdx.x) * 2 + parameter) * columns.heads +
                columns.Head(j)] = sum;
}

// How many threads share a row of gates and the padding after it.
unsigned VectorsOf(const DeltaGatesDeviceArgs& args) {
  const int columns = args.num_heads * (args.A_log == nullptr ? 1 : 2) + args.padding;
  return static_cast<unsigned>((columns + kVector - 1) / kVector);
}

}  // namespace

int DeltaGatesPartials(long long num_rows) {
  return static_cast<int>(
      std::clamp<long long>((num_rows + kThreads - 1) / kThreads, 1, kMaxPartials));
}

int LaunchDeltaGatesForward(const DeltaGatesDeviceArgs& args, CUstream_st* stream) {
  const dim3 grid(static_cast<unsigned>((args.num_rows + kThreads - 1) / kThreads),
                  VectorsOf(args));
  if (args.z.element == Element::kFloat) {
    DeltaGatesForwardKernel<float><<<grid, kThreads, 0, stream>>>(args);
  } else {
    DeltaGatesForwardKernel<__nv_bfloat16><<<grid, kThreads, 0, stream>>>(args);
  }
  return cudaGetLastError();
}

int LaunchDeltaGatesBackward(const DeltaGatesDeviceArgs& args, CUstream_st* stream) {
  const int parts = DeltaGatesPartials(args.num_rows);
  const dim3 grid(static_cast<unsigned>(parts), VectorsOf(args));
  if (args.z.element == Element::kFloat) {
    DeltaGatesBackwardKernel<float><<<grid, kThreads, 0, stream>>>(args);
  } else {
    DeltaGatesBackwardKernel<__nv_bfloat16><<<grid, kThreads, 0, stream>>>(args);
  }
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess || args.A_log == nullptr) return status;
  return LaunchSumRows(args.partials, parts, 2 * args.num_heads, args.d_parameters, stream);
}

}  // namespace mixerbench::kernels::fused
