// The recurrence of Mamba-3: trapezoidal discretisation, keys and queries that turn by a
// data-dependent angle. Maths: mamba3.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "models/mixer.h"

namespace mixerbench::models::mamba3 {

// What is carried from token to token.
struct TrapezoidState {
  at::Tensor state;  // [B,H,N,P]
  at::Tensor k;      // [B,H,N], of the last token
  at::Tensor v;      // [B,H,P]
};

struct TrapezoidArgs {
  at::Tensor q, k;              // [B,T,H,N]
  at::Tensor v;                 // [B,T,H,P]
  at::Tensor step;              // [B,T,H], fp32 at least, as all gates
  at::Tensor A;                 // [B,T,H], negative
  at::Tensor mix;               // [B,T,H] in [0,1]: the share of the current token
  at::Tensor written_step;      // [B,T,H]: step where it multiplies what is written
  TrapezoidState initial = {};  // undefined tensors: zeros
};

struct TrapezoidResult {
  at::Tensor o;          // [B,T,H,P], dtype of v
  TrapezoidState final;  // k and v are views of the arguments
};

// alpha = e^{A step}; S_t = alpha S_{t-1} + (1 - mix) step alpha k_{t-1} v_{t-1}^T
//                          + mix step k_t v_t^T;   o_t = S_t^T q_t
// Both writes are heads of one scalar decay.
TrapezoidResult Trapezoid(const TrapezoidArgs& args, ExecutionPath path);

// The sum of `increments` [B,T,H,R] over time after `start` [B,H,R] (undefined: zeros), in [0, 2
// pi).
at::Tensor Angles(const at::Tensor& increments, const at::Tensor& start);

// Turns the first R pairs of neighbouring channels of x [B,T,H,N] by angles [B,T,H,R].
at::Tensor TurnPairs(const at::Tensor& x, const at::Tensor& angles);

}  // namespace mixerbench::models::mamba3
