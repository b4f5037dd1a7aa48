// A core with P states of which each token reads and writes K: what is not written keeps what it
// has, it does not even decay.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "kernels/linear_attention/recurrence.h"
#include "models/blocks/routing.h"

namespace mixerbench::models {

// How the fast path computes it. All have shapes that depend on nothing but the sizes, so that a
// graph can hold them, and all give the same.
enum class RoutedForm {
  // One sequence of K T tokens, those of each state together in their order; where the next state's
  // begin the core's state is reset. A call that takes or wants states is computed by masking: they
  // would have to be read and written inside a sequence.
  kVarlen,
  kMasking,  // all P states as heads of one call; what is not for a state writes nothing there
  kLoop,     // masking, one state after the other: P times less memory
};

struct RoutedArgs {
  // [B,T,S,H,.]: those of each state, S = P, or of all alike, S = 1.
  at::Tensor q;          // [B,T,S,H,K]
  at::Tensor k;          // [B,T,S,H,K]
  at::Tensor v;          // [B,T,S,H,V]
  at::Tensor log_decay;  // [B,T,S,H] or [B,T,S,H,K], float32 at least
  at::Tensor beta = {};  // [B,T,S,H], for cores that have it

  // [B,T,P], 1 where a chosen state is written, 0 where it is read alone: it takes nothing and
  // forgets nothing. Undefined: chosen states are written.
  at::Tensor written = {};
  at::Tensor write_weights = {};  // [B,T,P], factors of v; undefined: 1
  at::Tensor read_weights = {};   // [B,T,P], factors of what is read
  at::Tensor initial_state = {};  // [B,P,H,K,V]; undefined: zeros
  bool wants_final_state = false;
};

struct RoutedResult {
  at::Tensor o;            // [B,T,H,V]: the sum over the chosen states, dtype of v
  at::Tensor final_state;  // [B,P,H,K,V]; undefined unless wanted
};

RoutedResult RunRouted(const RoutedArgs& args, const Routing& routing,
                       kernels::RecurrenceFunction core, RoutedForm form,
                       kernels::ExecutionPath path);

// Of delta rules, whose args have beta: [B,T,H], without gradient, the root of the sum, over the
// states that a token writes, of the squares of what its key recalls of them (DeltaErasedNorm).
at::Tensor RoutedErasedNorm(const RoutedArgs& args, const Routing& routing,
                            kernels::ExecutionPath path);

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::RoutedForm> {
  using E = mixerbench::models::RoutedForm;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kVarlen, "varlen"}, {E::kMasking, "masking"}, {E::kLoop, "loop"}};
};
