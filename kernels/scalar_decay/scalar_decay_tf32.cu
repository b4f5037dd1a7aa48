// The walks of scalar decay with tf32 operands. A file for each, so that they compile at the same
// time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/decay_walk_launch.cuh"
#include "kernels/scalar_decay/scalar_decay_kernels.h"

namespace mixerbench::kernels::scalar_decay {

int WalkTf32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan, CUstream_st* stream) {
  return cuda::LaunchWalk<cuda::Tf32Operand, cuda::DecayAxis::kNone>(problem, plan, stream);
}

}  // namespace mixerbench::kernels::scalar_decay
