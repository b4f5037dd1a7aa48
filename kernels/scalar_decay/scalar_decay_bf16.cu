// The walks of scalar decay with bf16 operands. A file for each, so that they compile at the same
// time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/decay_walk_launch.cuh"
#include "kernels/scalar_decay/scalar_decay_gradient.cuh"
#include "kernels/scalar_decay/scalar_decay_kernels.h"

namespace mixerbench::kernels::scalar_decay {

int WalkBf16(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan, CUstream_st* stream) {
  if (plan.by_chunks) return WalkChunksBf16(problem, plan, stream);
  return cuda::LaunchWalk<cuda::Bf16Operand, cuda::DecayAxis::kNone>(problem, plan, stream);
}

int DecayGradientBf16(const cuda::DecayGradientProblem& problem, CUstream_st* stream) {
  if (problem.q_products != nullptr) return DecayGradientOfSums(problem, stream);
  return LaunchChunkGradient<cuda::Bf16Operand>(problem, stream);
}

}  // namespace mixerbench::kernels::scalar_decay
