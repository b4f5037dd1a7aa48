// The recurrence of Mamba-3: trapezoidal discretisation, keys and queries that turn by a
// data-dependent angle. Maths: mamba3.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "models/mixer.h"

namespace mixerbench::models::mamba3 {

// What is carried from token to token; R is `rank`.
struct TrapezoidState {
  at::Tensor state;  // [B,H,N,P]
  at::Tensor k;      // [B,R,H,N], of the last token
  at::Tensor v;      // [B,R,H,P]
};

struct TrapezoidArgs {
  std::int64_t rank = 1;        // R: keys, values and queries of a token, one after the other
  at::Tensor q, k;              // [B,T R,H,N]
  at::Tensor v;                 // [B,T R,H,P]
  at::Tensor step;              // [B,T,H], fp32 at least, as all gates
  at::Tensor A;                 // [B,T,H], negative
  at::Tensor mix;               // [B,T,H] in [0,1]: the share of the current token
  at::Tensor written_step;      // [B,T,H]: step where it multiplies what is written
  at::Tensor D;                 // [H], of what goes past the state, D v
  TrapezoidState initial = {};  // undefined tensors: zeros
  bool wants_final_state = true;
};

struct TrapezoidResult {
  at::Tensor o;          // [B,T R,H,P], dtype of v
  TrapezoidState final;  // k and v are views of the arguments; `state` undefined if not wanted
};

// alpha = e^{A step}; S_t = alpha S_{t-1} + (1 - mix) step alpha sum_r k_{t-1,r} v_{t-1,r}^T
//                          + mix step sum_r k_{t,r} v_{t,r}^T;   o_{t,r} = S_t^T q_{t,r} + D
//                          v_{t,r}
// One scalar decay, one token late, with ranks as its tokens, and what a token reads of itself.
TrapezoidResult Trapezoid(const TrapezoidArgs& args, ExecutionPath path);

// The sum of `increments` [B,T,H,R] over time after `start` [B,H,R] (undefined: zeros), in [0, 2
// pi).
at::Tensor Angles(const at::Tensor& increments, const at::Tensor& start);

// e^{i angle}, complex.
at::Tensor Turns(const at::Tensor& angles);

// Turns the first J pairs of neighbouring channels of x [...,H,N] by `turns` [...,H,J].
at::Tensor TurnPairs(const at::Tensor& x, const at::Tensor& turns);

}  // namespace mixerbench::models::mamba3
