// Chosen rows of vector decay on a CUDA device, with gradients. Linked with CUDA only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "kernels/cuda/decay_rows.h"
#include "kernels/recurrence.h"

namespace mixerbench::kernels::cuda {

// The device code of one core.
struct DecayRowsKernels {
  const char* core = "";
  DecayRowsFunction forward = nullptr;
  DecayRowsFunction backward = nullptr;
};

// Whether RunDecayRows takes R rows of each sequence and is faster than the walks, for tensors of
// the dtype and device of x [B,T,...].
bool PrefersDecayRows(const at::Tensor& x, std::int64_t rows_per_sequence, std::int64_t head_k_dim,
                      std::int64_t head_v_dim);

// o [B,R,H,V] of args.rows; nullopt when these are not bf16 tensors on a CUDA device of sizes for
// which HasDecayRowsKernel, or when there is an initial state, no decay or a negative scale.
// Differentiable once.
std::optional<at::Tensor> RunDecayRows(const RecurrenceArgs& args, const PreparedRecurrence& sizes,
                                       const DecayRowsKernels& kernels);

}  // namespace mixerbench::kernels::cuda
