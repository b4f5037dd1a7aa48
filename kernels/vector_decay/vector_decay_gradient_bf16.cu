// The walks of vector decay to dq and dk with bf16 operands. A file for each, so that they compile
// at the same time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/decay_gradient.cuh"
#include "kernels/cuda/decay_walk_launch.cuh"
#include "kernels/vector_decay/vector_decay_kernels.h"

namespace mixerbench::kernels::vector_decay {

int GradientWalkBf16(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan,
                     CUstream_st* stream) {
  return cuda::LaunchWalk<cuda::Bf16Operand, cuda::DecayAxis::kValue>(problem, plan, stream);
}

int DecayGradientBf16(const cuda::DecayGradientProblem& problem, CUstream_st* stream) {
  return cuda::LaunchVectorDecayGradient<cuda::Bf16Operand>(problem, stream);
}

}  // namespace mixerbench::kernels::vector_decay
