// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector_decay/vector_decay_cuda.h"

#include "kernels/cuda/decay_autograd.h"
#include "kernels/cuda/decay_rows_autograd.h"
#include "kernels/vector_decay/vector_decay_kernels.h"

namespace mixerbench::kernels::vector_decay {

std::optional<RecurrenceResult> RunOnCuda(const RecurrenceArgs& args,
                                          const PreparedRecurrence& sizes) {
  static const cuda::DecayKernels kernels = {
      .core = "vector_decay",
      .read_axis = cuda::DecayAxis::kKey,
      .gradient_axis = cuda::DecayAxis::kValue,
      .read_walk = {ReadWalkBf16, ReadWalkTf32, ReadWalkFp32},
      .gradient_walk = {GradientWalkBf16, GradientWalkTf32, GradientWalkFp32},
      .decay_gradient = {DecayGradientBf16, DecayGradientFp32, DecayGradientFp32}};
  return cuda::RunDecayWalks(args, sizes, kernels);
}

std::optional<at::Tensor> RunRowsOnCuda(const RecurrenceArgs& args,
                                        const PreparedRecurrence& sizes) {
  return cuda::RunDecayRows(
      args, sizes, {.core = "vector_decay rows", .forward = RowsForward, .backward = RowsBackward});
}

bool PrefersRowsOnCuda(const at::Tensor& x, std::int64_t rows_per_sequence, std::int64_t head_k_dim,
                       std::int64_t head_v_dim) {
  return cuda::PrefersDecayRows(x, rows_per_sequence, head_k_dim, head_v_dim);
}

}  // namespace mixerbench::kernels::vector_decay
