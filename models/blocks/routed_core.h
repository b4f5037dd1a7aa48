// The core of a mixer with routed states and, if it has one, a state that all tokens share: what is
// carried from call to call, and what taps see.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/linear_attention/recurrence.h"
#include "models/blocks/routed_states.h"
#include "models/mixer.h"
#include "models/parameters.h"

namespace mixerbench::models {

struct RoutedLayout {
  std::int64_t num_states = 1;  // P, among which the router chooses
  bool has_shared = true;
  std::int64_t num_heads = 1;
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;
  RoutedForm form = RoutedForm::kVarlen;
};

class RoutedCore {
 public:
  RoutedCore(const RoutedLayout& layout, kernels::RecurrenceFunction core,
             const ParameterScope& scope);

  // `routed` [B,P,H,K,V] and `shared` [B,H,K,V].
  State InitialState(std::int64_t batch_size) const;

  // The sum of what both read, [B,T,H,V]; takes the states from `options`, leaves the last ones in
  // `mixed` if wanted. `shared`: with has_shared alone. Records log_decay [B,T,H,(P+1)K] or
  // [B,T,H,P+1], 0 where a state is not written, and state [B,H,(P+1)K,V]: the routed ones beside
  // each other, then the shared one; with beta also erase [B,T,H], RoutedErasedNorm, and
  // shared.erase.
  at::Tensor Run(RoutedArgs routed, const Routing& routing,
                 std::optional<kernels::RecurrenceArgs> shared, const MixerOptions& options,
                 Mixed& mixed) const;

 private:
  RoutedLayout layout_;
  kernels::RecurrenceFunction core_;
  at::TensorOptions state_options_;
};

}  // namespace mixerbench::models
