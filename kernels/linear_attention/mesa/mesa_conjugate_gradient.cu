// SPDX-License-Identifier: Apache-2.0
#include <cfloat>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/linear_attention/mesa/mesa_kernels.h"
#include "kernels/linear_attention/mesa/mesa_plan.h"

namespace mixerbench::kernels::mesa {
namespace {

constexpr int kLanes = 32;

// A vector [K] over the lanes of a warp: lane l has the elements l, l + 32, ...
template <int kKeys>
using LaneVector = float[kKeys / kLanes];

// H over the lanes: of the same columns all rows. H is symmetric, so they are rows as well.
template <int kKeys>
using LaneGram = float[kKeys / kLanes][kKeys];

// Of rows [head_k_dim], zeros behind them.
template <int kKeys>
__device__ void Load(LaneVector<kKeys>& x, const float* row, int head_k_dim) {
#pragma unroll
  for (int r = 0; r < kKeys / kLanes; ++r) {
    const int i = static_cast<int>(threadIdx.x) + r * kLanes;
    x[r] = i < head_k_dim ? row[i] : 0;
  }
}

// Every lane gets the same bits.
template <int kKeys>
__device__ float Dot(const LaneVector<kKeys>& a, const LaneVector<kKeys>& b) {
  float sum = 0;
#pragma unroll
  for (int r = 0; r < kKeys / kLanes; ++r) sum = fmaf(a[r], b[r], sum);
  return GroupSum(sum, kLanes);
}

// Lets all lanes of the warp read `x` from `shared`.
template <int kKeys>
__device__ void Share(float* shared, const LaneVector<kKeys>& x) {
  device::SyncWarp();  // all have read what stood there
#pragma unroll
  for (int r = 0; r < kKeys / kLanes; ++r) shared[threadIdx.x + r * kLanes] = x[r];
  device::SyncWarp();
}

__device__ inline float4 FourOf(const float* shared, int group) {
  return reinterpret_cast<const float4*>(shared)[group];
}

// H = decay H + beta k k^T; `shared` is overwritten.
template <int kKeys>
__device__ void Write(LaneGram<kKeys>& h, const LaneVector<kKeys>& k, float decay, float beta,
                      float* shared) {
  Share<kKeys>(shared, k);
#pragma unroll
  for (int group = 0; group < kKeys / 4; ++group) {
    const float4 rows = FourOf(shared, group);
#pragma unroll
    for (int r = 0; r < kKeys / kLanes; ++r) {
      const float written = beta * k[r];
      float* const h_rows = h[r] + 4 * group;
      h_rows[0] = fmaf(written, rows.x, decay * h_rows[0]);
      h_rows[1] = fmaf(written, rows.y, decay * h_rows[1]);
      h_rows[2] = fmaf(written, rows.z, decay * h_rows[2]);
      h_rows[3] = fmaf(written, rows.w, decay * h_rows[3]);
    }
  }
}

// (H + ridge) p; `shared` is overwritten.
template <int kKeys>
__device__ void Apply(LaneVector<kKeys>& applied, const LaneGram<kKeys>& h,
                      const LaneVector<kKeys>& ridge, const LaneVector<kKeys>& p, float* shared) {
  Share<kKeys>(shared, p);
  float sums[kKeys / kLanes][4];
#pragma unroll
  for (int r = 0; r < kKeys / kLanes; ++r) {
    sums[r][0] = ridge[r] * p[r];
    sums[r][1] = sums[r][2] = sums[r][3] = 0;
  }
#pragma unroll
  for (int group = 0; group < kKeys / 4; ++group) {
    const float4 rows = FourOf(shared, group);
#pragma unroll
    for (int r = 0; r < kKeys / kLanes; ++r) {
      const float* const h_rows = h[r] + 4 * group;
      sums[r][0] = fmaf(h_rows[0], rows.x, sums[r][0]);
      sums[r][1] = fmaf(h_rows[1], rows.y, sums[r][1]);
      sums[r][2] = fmaf(h_rows[2], rows.z, sums[r][2]);
      sums[r][3] = fmaf(h_rows[3], rows.w, sums[r][3]);
    }
  }
#pragma unroll
  for (int r = 0; r < kKeys / kLanes; ++r) {
    applied[r] = (sums[r][0] + sums[r][1]) + (sums[r][2] + sums[r][3]);
  }
}

// x = (H + ridge)^-1 b, as ConjugateGradients of mesa_solve.h; `shared` is overwritten.
template <int kKeys>
__device__ void Solve(LaneVector<kKeys>& x, const LaneGram<kKeys>& h,
                      const LaneVector<kKeys>& ridge, const LaneVector<kKeys>& b,
                      std::int64_t num_iterations, float* shared) {
  constexpr int kRows = kKeys / kLanes;
  LaneVector<kKeys> residual, direction, applied;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    x[r] = 0;
    residual[r] = direction[r] = b[r];
  }
  float square = Dot<kKeys>(residual, residual);
#pragma unroll 1
  for (std::int64_t i = 0; i < num_iterations; ++i) {
    Apply<kKeys>(applied, h, ridge, direction, shared);
    const float step = square / (Dot<kKeys>(direction, applied) + FLT_MIN);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x[r] = fmaf(step, direction[r], x[r]);
      residual[r] = fmaf(-step, applied[r], residual[r]);
    }
    const float next_square = Dot<kKeys>(residual, residual);
    const float turn = next_square / (square + FLT_MIN);
#pragma unroll
    for (int r = 0; r < kRows; ++r) direction[r] = fmaf(turn, direction[r], residual[r]);
    square = next_square;
  }
}

// A warp goes through the tokens of a chunk with H in registers; a CTA is one warp. Deterministic.
template <int kKeys>
__global__ void __launch_bounds__(kLanes) SolveKernel(const SystemsProblem p) {
  __shared__ __align__(16) float shared[kKeys];
  const std::int64_t chunk = blockIdx.x;
  const int head_k_dim = p.head_k_dim;

  LaneGram<kKeys> h;
  const float* const entering = p.entering + chunk * p.entering_stride;
#pragma unroll
  for (int row = 0; row < kKeys; ++row) {
    LaneVector<kKeys> columns;
    Load<kKeys>(columns, entering + row * p.entering_row_stride, row < head_k_dim ? head_k_dim : 0);
#pragma unroll
    for (int r = 0; r < kKeys / kLanes; ++r) h[r][row] = columns[r];
  }
  LaneVector<kKeys> ridge;
  Load<kKeys>(ridge, p.ridge + chunk * head_k_dim, head_k_dim);
#pragma unroll 1
  for (std::int64_t token = chunk * p.chunk_size; token < (chunk + 1) * p.chunk_size; ++token) {
    LaneVector<kKeys> k, b, x;
    Load<kKeys>(k, p.k + token * head_k_dim, head_k_dim);
    Load<kKeys>(b, p.b + token * head_k_dim, head_k_dim);
    Write<kKeys>(h, k, device::Exp(p.log_decay[token]), p.beta[token], shared);
    Solve<kKeys>(x, h, ridge, b, p.num_iterations, shared);
#pragma unroll
    for (int r = 0; r < kKeys / kLanes; ++r) {
      const int i = static_cast<int>(threadIdx.x) + r * kLanes;
      if (i < head_k_dim) p.x[token * head_k_dim + i] = x[r];
    }
  }
}

}  // namespace

int SolveSystems(const SystemsProblem& p, CUstream_st* stream) {
  const auto launch = [&](auto kernel) -> int {
    return device::Launch(kernel, p.num_chunks, kLanes, 0, stream, p);
  };
  return p.head_k_dim <= kLanes ? launch(SolveKernel<kLanes>) : launch(SolveKernel<kMaxKeys>);
}

}  // namespace mixerbench::kernels::mesa
