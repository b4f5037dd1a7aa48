// The walks of vector decay to o and dv with fp32 operands. A file for each, so that they compile
// at the same time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/decay_walk_launch.cuh"
#include "kernels/vector_decay/vector_decay_kernels.h"

namespace mixerbench::kernels::vector_decay {

int ReadWalkFp32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan,
                 CUstream_st* stream) {
  return cuda::LaunchWalk<cuda::Fp32Operand, cuda::DecayAxis::kKey>(problem, plan, stream);
}

}  // namespace mixerbench::kernels::vector_decay
