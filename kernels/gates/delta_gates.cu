// Gates of the delta rules, forward and backward: one pass over memory each way.
//
// These are a few columns of a wide matrix, so that latency is all there is, also that of the first
// instructions: a thread has one head of a row, and the code is short. Sums over rows for A_log and
// dt_bias are formed by blocks, whose number depends on the sizes alone, and added in order by
// SumRowsKernel. fp32 arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "kernels/device/dependent_launch.cuh"
#include "kernels/device/sum_rows.h"
#include "kernels/gates/gates.cuh"

namespace mixerbench::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kForwardThreads = 256;
constexpr int kBackwardThreads = 1024;  // so many that there are few parts to add
constexpr int kMaxPartials = 264;
static_assert(kMaxGateHeads <= kForwardThreads);

// A block: all heads in x, in y as many rows as fit, a power of two.
dim3 Block(int threads, int num_heads) {
  return dim3(static_cast<unsigned>(num_heads),
              std::bit_floor(static_cast<unsigned>(threads / num_heads)));
}

long long CeilDiv(long long x, long long unit) { return (x + unit - 1) / unit; }

template <typename T>
__global__ void __launch_bounds__(kForwardThreads)
    DeltaGatesForwardKernel(const DeltaGatesDeviceArgs args) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= args.num_rows) return;
  const int head = static_cast<int>(threadIdx.x);
  const bool has_decay = args.A_log != nullptr;
  const T* z = static_cast<const T*>(args.z.data) + row * args.z.stride + head;
  const T z_beta = z[0];
  const T z_decay = has_decay ? z[args.num_heads] : T(0.0f);
  const float A_log = has_decay ? args.A_log[head] : 0;
  const float dt_bias = has_decay ? args.dt_bias[head] : 0;
  const long long i = row * args.num_heads + head;
  args.beta[i] = args.beta_scale * Sigmoid(static_cast<float>(z_beta));
  if (has_decay) {
    args.log_decay[i] = -expf(A_log) * Softplus(static_cast<float>(z_decay) + dt_bias);
  }
}

// Writes a row of d_z, and the zeros after it, from the heads' gradients with respect to their
// logits. `together`: in 16 bytes, which a thread collects from the others of its row; heads are
// then a power of two that divides a warp, all of whose lanes come here. Single elements take many
// instructions, and memory is read to fill what each leaves of a sector.
template <typename T>
__device__ void StoreRow(const DeltaGatesDeviceArgs& args, long long row, bool together,
                         float d_beta, float d_decay) {
  const bool valid = row < args.num_rows;
  const int heads = args.num_heads;
  const int head = static_cast<int>(threadIdx.x);
  const int gates = args.A_log != nullptr ? 2 * heads : heads;
  const int end = gates + args.padding;
  T* target = static_cast<T*>(args.d_z.data) + row * args.d_z.stride;
  if (together) {
    constexpr int kColumns = sizeof(uint4) / sizeof(T);
    const int lane_of_row = static_cast<int>(threadIdx.y) * heads % kWarp;
#pragma unroll 1
    for (int first = 0; first < end; first += kColumns * heads) {
      const int mine = first + head * kColumns;
      alignas(uint4) T columns[kColumns];
#pragma unroll
      for (int k = 0; k < kColumns; ++k) {
        const int lane = lane_of_row + ((mine + k) & (heads - 1));
        const float of_beta = __shfl_sync(0xffffffffu, d_beta, lane);
        const float of_decay = __shfl_sync(0xffffffffu, d_decay, lane);
        columns[k] = T(mine + k < heads ? of_beta : mine + k < gates ? of_decay : 0);
      }
      if (valid && mine < end) {
        *reinterpret_cast<uint4*>(target + mine) = *reinterpret_cast<const uint4*>(columns);
      }
    }
  } else if (valid) {
    target[head] = T(d_beta);
    if (args.A_log != nullptr) target[heads + head] = T(d_decay);
#pragma unroll 1
    for (int column = gates + head; column < end; column += heads) target[column] = T(0.0f);
  }
}

// Writes d_z and the zeros of the padding; a block's sums for A_log and dt_bias are its partials.
template <typename T>
__global__ void __launch_bounds__(kBackwardThreads)
    DeltaGatesBackwardKernel(const DeltaGatesDeviceArgs args, bool together) {
  __shared__ float sums[2][kBackwardThreads];
  LetNextStart();
  const int heads = args.num_heads;
  const int head = static_cast<int>(threadIdx.x);
  const int thread = static_cast<int>(threadIdx.y) * heads + head;
  const bool has_decay = args.A_log != nullptr;
  const float A_log = has_decay ? args.A_log[head] : 0;
  const float dt_bias = has_decay ? args.dt_bias[head] : 0;
  float d_A_log = 0;
  float d_dt_bias = 0;
  for (long long first = static_cast<long long>(blockIdx.x) * blockDim.y; first < args.num_rows;
       first += static_cast<long long>(gridDim.x) * blockDim.y) {
    const long long row = first + threadIdx.y;
    float d_beta = 0;
    float d_decay = 0;
    if (row < args.num_rows) {
      const T* z = static_cast<const T*>(args.z.data) + row * args.z.stride + head;
      const long long i = row * heads + head;
      const T z_beta = z[0];
      d_beta = args.d_beta != nullptr ? args.d_beta[i] : 0;
      if (has_decay) {
        const float shifted = static_cast<float>(z[heads]) + dt_bias;
        const float d_log_decay = args.d_log_decay != nullptr ? args.d_log_decay[i] : 0;
        const float d_softplus = -expf(A_log) * d_log_decay;
        d_decay = d_softplus * Sigmoid(shifted);
        d_A_log += d_softplus * Softplus(shifted);
        d_dt_bias += d_decay;
      }
      const float beta = Sigmoid(static_cast<float>(z_beta));
      d_beta = d_beta * args.beta_scale * beta * (1 - beta);
    }
    StoreRow<T>(args, row, together, d_beta, d_decay);
  }
  if (!has_decay) return;
  const int rows = static_cast<int>(blockDim.y);
  sums[0][thread] = d_A_log;
  sums[1][thread] = d_dt_bias;
  __syncthreads();
  // A warp, of those with all lanes, adds for one parameter of a head.
  const int lane = thread % kWarp;
  const int warps = rows * heads / kWarp;
  if (thread >= warps * kWarp) return;
  for (int column = thread / kWarp; column < 2 * heads; column += warps) {
    const float* terms = column < heads ? &sums[0][column] : &sums[1][column - heads];
    float sum = 0;
#pragma unroll 4
    for (int r = lane; r < rows; r += kWarp) sum += terms[r * heads];
    sum = GroupSum(sum, kWarp);
    if (lane == 0) args.partials[static_cast<long long>(blockIdx.x) * 2 * heads + column] = sum;
  }
}

}  // namespace

int DeltaGatesPartials(long long num_rows, int num_heads) {
  return static_cast<int>(std::clamp<long long>(
      CeilDiv(num_rows, Block(kBackwardThreads, num_heads).y), 1, kMaxPartials));
}

int LaunchDeltaGatesForward(const DeltaGatesDeviceArgs& args, CUstream_st* stream) {
  const dim3 block = Block(kForwardThreads, args.num_heads);
  const auto grid = static_cast<unsigned>(CeilDiv(args.num_rows, block.y));
  if (args.z.element == Element::kFloat) {
    DeltaGatesForwardKernel<float><<<grid, block, 0, stream>>>(args);
  } else {
    DeltaGatesForwardKernel<__nv_bfloat16><<<grid, block, 0, stream>>>(args);
  }
  return cudaGetLastError();
}

int LaunchDeltaGatesBackward(const DeltaGatesDeviceArgs& args, CUstream_st* stream) {
  const int parts = DeltaGatesPartials(args.num_rows, args.num_heads);
  const dim3 block = Block(kBackwardThreads, args.num_heads);
  const int columns = args.num_heads * (args.A_log == nullptr ? 1 : 2) + args.padding;
  const bool together = kWarp % args.num_heads == 0 && HasVectors(args.d_z, columns);
  const auto grid = static_cast<unsigned>(parts);
  if (args.z.element == Element::kFloat) {
    DeltaGatesBackwardKernel<float><<<grid, block, 0, stream>>>(args, together);
  } else {
    DeltaGatesBackwardKernel<__nv_bfloat16><<<grid, block, 0, stream>>>(args, together);
  }
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess || args.A_log == nullptr) return status;
  return LaunchSumRows(args.partials, parts, 2 * args.num_heads, args.d_parameters, stream);
}

}  // namespace mixerbench::kernels
