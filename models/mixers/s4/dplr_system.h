// Diagonal-plus-low-rank systems A = diag(rate) - sum_r p_r p_r^H, discretised bilinearly: their
// convolution kernel by the truncated generating function, and their recurrence. Maths: s4.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mixerbench::models::s4 {

// H systems of M complex modes, each standing for itself and its conjugate, of rank R = 1 or 2. All
// complex128 but `step`, which is float64.
struct DplrSystem {
  at::Tensor rate;   // [H,M]
  at::Tensor p;      // [R,H,M]
  at::Tensor input;  // [H,M]
  at::Tensor step;   // [H,1]
};

// K_l = 2 Re(read (I - Abar^length)^-1 Abar^l Bbar_q) for l = 0..length-1, Bbar_q the discrete form
// of inputs[q]: read [H,M], inputs [Q,H,M] -> [Q,H,length] float64. No power of Abar is formed.
at::Tensor TruncatedKernel(const DplrSystem& system, const at::Tensor& read,
                           const at::Tensor& inputs, std::int64_t length);

// The input whose discrete form is Abar state. state [B,H,M] -> [B,H,M].
at::Tensor InputOfState(const DplrSystem& system, const at::Tensor& state);

// One token of the recurrence in O(M): constants of a system, in one complex dtype.
class LinearStep {
 public:
  LinearStep(const DplrSystem& system, at::ScalarType dtype);
  // Abar x + Bbar u; x [...,H,M], u [...,H] real; undefined: 0.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& u) const;

 private:
  at::Tensor forward_;   // E = 2/step + rate
  at::Tensor backward_;  // F = 1 / (2/step - rate)
  at::Tensor input_;
  at::Tensor p_;
  at::Tensor inverse_;  // (I + q^T F p)^-1 [H,R,R], real
};

// Complex [...,M] as real [...,2M], real parts first, and back.
at::Tensor ToReal(const at::Tensor& x);
at::Tensor ToComplex(const at::Tensor& x);

// Of one step, on real vectors: Abar [H,2M,2M], Bbar [H,2M], float64.
at::Tensor StepMatrix(const DplrSystem& system);
at::Tensor StepInput(const DplrSystem& system);

// matrix^exponent, by repeated squaring. [H,N,N].
at::Tensor MatrixPower(const at::Tensor& matrix, std::int64_t exponent);

// read (I - Abar^length), and what undoes it: what S4 trains, and what its recurrence reads with.
at::Tensor Truncate(const DplrSystem& system, const at::Tensor& read, std::int64_t length);
at::Tensor Untruncate(const DplrSystem& system, const at::Tensor& read, std::int64_t length);

// Abar^T state + sum_l Abar^(T-1-l) Bbar u_l. u [B,T,H] real, state [B,H,M] or undefined -> [B,H,M]
// in the complex dtype of u.
at::Tensor StateAfter(const DplrSystem& system, const at::Tensor& u, const at::Tensor& state);

}  // namespace mixerbench::models::s4
