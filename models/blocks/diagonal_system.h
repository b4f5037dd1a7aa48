// Diagonal state spaces with one input and one output: by convolution in training and prefill, by
// the recurrence as the reference and in decoding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "kernels/core.h"

namespace mixerbench::models {

enum class Discretization { kZoh, kBilinear };

// H systems of M complex modes, each standing for itself and its conjugate; all [H,M] complex128:
//   x_t = exp(log_step) x_{t-1} + input u_t,   y_t = 2 Re sum_m output x_t
struct DiagonalSystem {
  at::Tensor log_step;
  at::Tensor input;
  at::Tensor output;
};

// Of x' = rate x + input u, y = 2 Re(output x), sampled every `step` [H,1] (float64):
//   zoh:      exp(step rate),                         (exp(step rate) - 1) / rate input
//   bilinear: (1 + step rate/2) / (1 - step rate/2),  step / (1 - step rate/2) input
DiagonalSystem Discretize(const at::Tensor& rate, const at::Tensor& input, const at::Tensor& output,
                          const at::Tensor& step, Discretization discretization);

struct SystemResult {
  at::Tensor y;            // [B,T,C], dtype of u
  at::Tensor final_state;  // [B,C,M] complex; undefined unless wanted
};

// u [B,T,C] in float32 or float64, where C = H R and channel c belongs to system c / R;
// initial_state [B,C,M] complex; undefined: zeros. Fast: convolution with the kernel
// 2 Re sum_m output input exp(l log_step), what the initial state adds, and the final state as one
// sum over time.
SystemResult RunSystem(const DiagonalSystem& system, const at::Tensor& u,
                       const at::Tensor& initial_state, bool wants_final_state,
                       kernels::ExecutionPath path);

// exp(x) and log((1 + x) / (1 - x)) of complex x, by real functions.
at::Tensor ComplexExp(const at::Tensor& x);
at::Tensor LogOfBilinear(const at::Tensor& x);

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::Discretization> {
  using E = mixerbench::models::Discretization;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kZoh, "zoh"},
                                                              {E::kBilinear, "bilinear"}};
};
