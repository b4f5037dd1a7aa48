// The walks of scalar decay in chunks, with bf16 operands.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/chunk_walk.cuh"
#include "kernels/scalar_decay/scalar_decay_kernels.h"

namespace mixerbench::kernels::scalar_decay {

int WalkChunksBf16(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan,
                   CUstream_st* stream) {
  return problem.key_dim <= 64 ? cuda::LaunchChunkWalk<64>(problem, plan, stream)
                               : cuda::LaunchChunkWalk<128>(problem, plan, stream);
}

}  // namespace mixerbench::kernels::scalar_decay
