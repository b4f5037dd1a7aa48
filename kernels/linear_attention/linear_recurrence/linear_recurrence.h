// A diagonal linear recurrence of first order, real or complex: S5, LRU and their kin.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/core.h"

namespace mixerbench::kernels {

// B batch, T tokens, C channels. All tensors share one device. Any strides.
struct LinearRecurrenceArgs {
  at::Tensor x;  // [B,T,C], any floating or complex dtype
  // log lambda, [C] or [B,T,C], fp32 or fp64, real or complex; real parts <= 0, of which -infinity
  // forgets everything. Exponentials are evaluated in its own precision.
  at::Tensor log_decay;
  at::Tensor initial_state = {};  // [B,C], a dtype that converts to that of h; undefined: zeros
};

struct LinearRecurrenceResult {
  at::Tensor h;            // [B,T,C], fp32, or fp64 for fp64 x; complex if x or log_decay is
  at::Tensor final_state;  // [B,C], h of the last token
};

// One token at a time, the definition:
//   h_t = exp(log_decay_t) h_{t-1} + x_t
// Cost:   O(B T C) time and, with gradients, memory; T dependent steps.
// Errors: std::logic_error when shapes, dtypes or devices disagree.
LinearRecurrenceResult ReferenceLinearRecurrence(const LinearRecurrenceArgs& args);

// The same as an associative scan: pairs of neighbours are one step each of a recurrence of half
// the length. Derivation and backward pass in linear_recurrence.md.
// Cost: some nine passes over [B,T,C] forward, 5 log2 T calls of ATen.
// Source: Blelloch, Prefix Sums and Their Applications, 1990; arXiv 2208.04933 (S5).
LinearRecurrenceResult ScanLinearRecurrence(const LinearRecurrenceArgs& args);

// What mixers call.
LinearRecurrenceResult LinearRecurrence(const LinearRecurrenceArgs& args, ExecutionPath path);

namespace linear_recurrence {

// The dtype of h. Checks everything else.
at::ScalarType Prepare(const LinearRecurrenceArgs& args);

// exp(log_decay) [C] or [B,T,C] in `dtype`; zero where the real part is -infinity.
at::Tensor Decay(const at::Tensor& log_decay, at::ScalarType dtype);

}  // namespace linear_recurrence
}  // namespace mixerbench::kernels
