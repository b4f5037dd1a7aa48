// The walks of scalar decay with fp32 operands. A file for each, so that they compile at the same
// time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/decay_walk_launch.cuh"
#include "kernels/scalar_decay/scalar_decay_gradient.cuh"
#include "kernels/scalar_decay/scalar_decay_kernels.h"

namespace mixerbench::kernels::scalar_decay {

int WalkFp32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan, CUstream_st* stream) {
  return cuda::LaunchWalk<cuda::Fp32Operand, cuda::DecayAxis::kNone>(problem, plan, stream);
}

int DecayGradientFp32(const cuda::DecayGradientProblem& problem, CUstream_st* stream) {
  return LaunchChunkGradient<cuda::Fp32Operand>(problem, stream);
}

}  // namespace mixerbench::kernels::scalar_decay
