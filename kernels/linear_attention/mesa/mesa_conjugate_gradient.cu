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
constexpr int kBands = 4;  // of rows of H, eight lanes each

// A lane holds a block of H, kRows rows of its band and kColumns columns, and of a vector [K] the
// kOwn elements from First() on.
template <int kKeys>
struct Block {
  static constexpr int kRows = kKeys / kBands;
  static constexpr int kColumns = kKeys / (kLanes / kBands);
  static constexpr int kOwn = kKeys / kLanes;

  static __device__ int Band() { return static_cast<int>(threadIdx.x) / (kLanes / kBands); }
  // Of the block's column c. The four lanes that share columns hold them in four orders, such that
  // the first ones are its own and what SumBands sends stands in the same place everywhere.
  static __device__ int Column(int c) {
    const int strip = static_cast<int>(threadIdx.x) % (kLanes / kBands);
    return strip * kColumns + ((c / kOwn) ^ Band()) * kOwn + c % kOwn;
  }
  static __device__ int First() { return Column(0); }
};

template <int kKeys>
using LaneVector = float[Block<kKeys>::kOwn];
template <int kKeys>
using LaneGram = float[Block<kKeys>::kRows][Block<kKeys>::kColumns];

// Of rows [head_k_dim], zeros behind them.
template <int kKeys>
__device__ void Load(LaneVector<kKeys>& x, const float* row, int head_k_dim) {
#pragma unroll
  for (int r = 0; r < Block<kKeys>::kOwn; ++r) {
    const int i = Block<kKeys>::First() + r;
    x[r] = i < head_k_dim ? row[i] : 0;
  }
}

// What a lane adds to a sum over the lanes.
template <int kKeys>
__device__ float Part(const LaneVector<kKeys>& a, const LaneVector<kKeys>& b) {
  float sum = 0;
#pragma unroll
  for (int r = 0; r < Block<kKeys>::kOwn; ++r) sum = fmaf(a[r], b[r], sum);
  return sum;
}

// Two sums over the lanes; every lane gets the same bits.
__device__ inline void SumLanes(float (&x)[2]) {
  const bool upper = (threadIdx.x & 16) != 0;
  float sum = (upper ? x[1] : x[0]) + device::ShuffleXor(upper ? x[0] : x[1], 16);
#pragma unroll
  for (int mask = 8; mask > 0; mask /= 2) sum += device::ShuffleXor(sum, mask);
  const float other = device::ShuffleXor(sum, 16);
  x[0] = upper ? other : sum;
  x[1] = upper ? sum : other;
}

// Sums of columns over the bands; a lane gets those of its own elements.
template <int kKeys>
__device__ void SumBands(LaneVector<kKeys>& own, float (&columns)[Block<kKeys>::kColumns]) {
  constexpr int kOwn = Block<kKeys>::kOwn;
#pragma unroll
  for (int c = 0; c < 2 * kOwn; ++c) columns[c] += device::ShuffleXor(columns[c + 2 * kOwn], 16);
#pragma unroll
  for (int c = 0; c < kOwn; ++c) own[c] = columns[c] + device::ShuffleXor(columns[c + kOwn], 8);
}

template <int kKeys>
__device__ void Put(float* shared, const LaneVector<kKeys>& x) {
#pragma unroll
  for (int r = 0; r < Block<kKeys>::kOwn; ++r) shared[Block<kKeys>::First() + r] = x[r];
}

// Four rows of the lane's band.
template <int kKeys>
__device__ float4 FourRows(const float* shared, int group) {
  return reinterpret_cast<const float4*>(shared +
                                         Block<kKeys>::Band() * Block<kKeys>::kRows)[group];
}

// H = decay H + beta k k^T; `shared` is overwritten.
template <int kKeys>
__device__ void Write(LaneGram<kKeys>& h, const LaneVector<kKeys>& k, float decay, float beta,
                      float* shared) {
  device::SyncWarp();  // all have read what stood there
  Put<kKeys>(shared, k);
  device::SyncWarp();
  float written[Block<kKeys>::kColumns];
#pragma unroll
  for (int c = 0; c < Block<kKeys>::kColumns; ++c) {
    written[c] = beta * shared[Block<kKeys>::Column(c)];
  }
#pragma unroll
  for (int group = 0; group < Block<kKeys>::kRows / 4; ++group) {
    const float4 rows = FourRows<kKeys>(shared, group);
#pragma unroll
    for (int c = 0; c < Block<kKeys>::kColumns; ++c) {
      h[4 * group][c] = fmaf(rows.x, written[c], decay * h[4 * group][c]);
      h[4 * group + 1][c] = fmaf(rows.y, written[c], decay * h[4 * group + 1][c]);
      h[4 * group + 2][c] = fmaf(rows.z, written[c], decay * h[4 * group + 2][c]);
      h[4 * group + 3][c] = fmaf(rows.w, written[c], decay * h[4 * group + 3][c]);
    }
  }
}

// H p for the two p in `shared`.
template <int kKeys>
__device__ void Apply(LaneVector<kKeys> (&applied)[2], const LaneGram<kKeys>& h,
                      const float (*shared)[kKeys]) {
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    float columns[Block<kKeys>::kColumns] = {};
#pragma unroll
    for (int group = 0; group < Block<kKeys>::kRows / 4; ++group) {
      const float4 rows = FourRows<kKeys>(shared[s], group);
#pragma unroll
      for (int c = 0; c < Block<kKeys>::kColumns; ++c) {
        float& sum = columns[c];
        sum = fmaf(h[4 * group][c], rows.x, sum);
        sum = fmaf(h[4 * group + 1][c], rows.y, sum);
        sum = fmaf(h[4 * group + 2][c], rows.z, sum);
        sum = fmaf(h[4 * group + 3][c], rows.w, sum);
      }
    }
    SumBands<kKeys>(applied[s], columns);
  }
}

// A token's part of H and its right-hand side.
template <int kKeys>
struct Token {
  LaneVector<kKeys> k, b;
  float decay, beta;
};

template <int kKeys>
__device__ void Load(Token<kKeys>& token, const SystemsProblem& p, std::int64_t index,
                     bool exists) {
  Load<kKeys>(token.k, p.k + index * p.head_k_dim, exists ? p.head_k_dim : 0);
  Load<kKeys>(token.b, p.b + index * p.head_k_dim, exists ? p.head_k_dim : 0);
  token.decay = exists ? device::Exp(p.log_decay[index]) : 1;
  token.beta = exists ? p.beta[index] : 0;
}

// Residuals below this, relative and squared, are rounding.
constexpr float kRounding = 0x1p-48F;

// x = (H_s + ridge)^-1 b_s of two tokens, as ConjugateGradients of mesa_solve.h, for which H_1 p is
// made of H_0 p; ends early when both residuals are rounding. `shared` is overwritten.
template <int kKeys>
__device__ void Solve(LaneVector<kKeys> (&x)[2], const LaneGram<kKeys>& h,
                      const LaneVector<kKeys>& ridge, const Token<kKeys> (&tokens)[2],
                      std::int64_t num_iterations, float (*shared)[kKeys]) {
  constexpr int kOwn = Block<kKeys>::kOwn;
  const Token<kKeys>& second = tokens[1];
  LaneVector<kKeys> residual[2], direction[2], applied[2];
  float square[2], enough[2];
#pragma unroll
  for (int s = 0; s < 2; ++s) {
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
      x[s][r] = 0;
      residual[s][r] = direction[s][r] = tokens[s].b[r];
    }
    square[s] = Part<kKeys>(residual[s], residual[s]);
  }
  SumLanes(square);
#pragma unroll
  for (int s = 0; s < 2; ++s) enough[s] = kRounding * square[s];
#pragma unroll 1
  for (std::int64_t i = 0; i < num_iterations; ++i) {
    // False where either is NaN, which then reaches x.
    if (square[0] <= enough[0] && square[1] <= enough[1]) break;
    device::SyncWarp();  // all have read what stood there
#pragma unroll
    for (int s = 0; s < 2; ++s) Put<kKeys>(shared[s], direction[s]);
    device::SyncWarp();
    const float written = second.beta * GroupSum(Part<kKeys>(second.k, direction[1]), kLanes);
    Apply<kKeys>(applied, h, shared);
    float curvature[2];
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
      applied[0][r] = fmaf(ridge[r], direction[0][r], applied[0][r]);
      applied[1][r] = fmaf(written, second.k[r], second.decay * applied[1][r]);
      applied[1][r] = fmaf(ridge[r], direction[1][r], applied[1][r]);
    }
#pragma unroll
    for (int s = 0; s < 2; ++s) curvature[s] = Part<kKeys>(direction[s], applied[s]);
    SumLanes(curvature);
    float next_square[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const float step = __fdividef(square[s], curvature[s] + FLT_MIN);
#pragma unroll
      for (int r = 0; r < kOwn; ++r) {
        x[s][r] = fmaf(step, direction[s][r], x[s][r]);
        residual[s][r] = fmaf(-step, applied[s][r], residual[s][r]);
      }
      next_square[s] = Part<kKeys>(residual[s], residual[s]);
    }
    SumLanes(next_square);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const float turn = __fdividef(next_square[s], square[s] + FLT_MIN);
#pragma unroll
      for (int r = 0; r < kOwn; ++r) direction[s][r] = fmaf(turn, direction[s][r], residual[s][r]);
      square[s] = next_square[s];
    }
  }
}

// A warp goes through the tokens of a chunk, two at a time, with H in registers; a CTA is one warp.
// Deterministic.
template <int kKeys>
__global__ void __launch_bounds__(kLanes) SolveKernel(const SystemsProblem p) {
  using Block = Block<kKeys>;
  __shared__ __align__(16) float shared[2][kKeys];
  const std::int64_t chunk = blockIdx.x;

  LaneGram<kKeys> h;
  const float* const entering = p.entering + chunk * p.entering_stride;
#pragma unroll
  for (int r = 0; r < Block::kRows; ++r) {
    const int row = Block::Band() * Block::kRows + r;
#pragma unroll
    for (int c = 0; c < Block::kColumns; ++c) {
      const int column = Block::Column(c);
      h[r][c] = row < p.head_k_dim && column < p.head_k_dim
                    ? entering[row * p.entering_row_stride + column]
                    : 0;
    }
  }
  LaneVector<kKeys> ridge;
  Load<kKeys>(ridge, p.ridge + chunk * p.head_k_dim, p.head_k_dim);
#pragma unroll 1
  for (std::int64_t token = 0; token < p.chunk_size; token += 2) {
    Token<kKeys> tokens[2];
    LaneVector<kKeys> x[2];
    const std::int64_t first = chunk * p.chunk_size + token;
#pragma unroll
    for (int s = 0; s < 2; ++s) Load<kKeys>(tokens[s], p, first + s, token + s < p.chunk_size);
    Write<kKeys>(h, tokens[0].k, tokens[0].decay, tokens[0].beta, shared[0]);
    Solve<kKeys>(x, h, ridge, tokens, p.num_iterations, shared);
    Write<kKeys>(h, tokens[1].k, tokens[1].decay, tokens[1].beta, shared[0]);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      if (token + s == p.chunk_size) break;
#pragma unroll
      for (int r = 0; r < Block::kOwn; ++r) {
        const int i = Block::First() + r;
        if (i < p.head_k_dim) p.x[(first + s) * p.head_k_dim + i] = x[s][r];
      }
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
