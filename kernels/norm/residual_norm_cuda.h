// Device functions of residual_norm.h on raw pointers. residual_norm.cu defines them;
// device_stub.cc does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

// Weights of a norm over `width` columns, fp32. Without bias: RMSNorm, else LayerNorm.
struct NormWeights {
  const float* weight = nullptr;  // nullptr: no norm at all
  const float* bias = nullptr;
  float eps = 0;
};

constexpr int kResidualNormWeights = 4;

// Means and scales of both norms, a row: mid mean, mid scale, mean, scale.
constexpr int kResidualNormStatistics = 4;

// Where a row of the stream goes when only some are scored: row inverse[n] of the scored ones,
// nowhere when that is not below num_scored. nullptr: all are scored in place.
struct ScoredRows {
  const std::int64_t* inverse = nullptr;    // [num_rows]
  const std::int64_t* positions = nullptr;  // [num_scored]: the row that a scored one would be
  long long num_scored = 0;
};

// s = residual + added; u = s + mid(s), or s without `mid`; normalised = norm(u).
struct ResidualNormForward {
  long long num_rows = 0;
  int width = 0;                      // see ResidualNormSupports
  Element element = Element::kFloat;  // of all rows
  ConstRows residual;                 // may be absent
  ConstRows added;                    // may be absent, not both
  NormWeights mid;
  NormWeights norm;
  ScoredRows scored;
  Rows residual_out;  // u; absent: not wanted
  Rows normalised;
  float* statistics = nullptr;  // [num_rows,kResidualNormStatistics]; nullptr: not wanted
};

struct ResidualNormBackward {
  long long num_rows = 0;
  int width = 0;
  Element element = Element::kFloat;
  ConstRows residual;
  ConstRows added;
  NormWeights mid;
  NormWeights norm;
  ScoredRows scored;
  const float* statistics = nullptr;  // of the forward pass
  ConstRows d_residual_out;           // absent: zero
  ConstRows d_normalised;             // absent: zero
  Rows d_sum;                         // the gradient of s; absent: not wanted
  // Scratch of ResidualNormPartials(num_rows, width) * kResidualNormWeights * width floats.
  float* partials = nullptr;
  // [kResidualNormWeights,width]: gradients of norm.weight, norm.bias, mid.weight and
  // mid.bias; those of absent weights mean nothing.
  float* d_weights = nullptr;
};

// Rows of 8, 16, ... 512 columns: what a warp holds in registers; rows are numbered in 32 bits.
constexpr bool ResidualNormSupports(long long num_rows, long long width) {
  return num_rows < (1LL << 30) && width >= 8 && width <= 512 && width % 8 == 0;
}

// Sums over rows are formed in so many parts, added in order: a function of the sizes alone, so
// that the bits of a gradient are the same on every GPU.
int ResidualNormPartials(long long num_rows, int width);

// Queue the work; return the CUDA error code of the launch. Every pointer is 16-byte aligned, every
// stride a multiple of 8 elements.
int LaunchResidualNormForward(const ResidualNormForward& args, CUstream_st* stream);
int LaunchResidualNormBackward(const ResidualNormBackward& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
