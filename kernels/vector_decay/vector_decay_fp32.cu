// Device code of vector decay for fp32 tensors. Files are split by dtype so that they compile in
// parallel.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/decay_gradient.cuh"
#include "kernels/cuda/decay_walk_launch.cuh"
#include "kernels/vector_decay/vector_decay_kernels.h"

namespace mixerbench::kernels::vector_decay {

int ReadWalkTf32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan,
                 CUstream_st* stream) {
  return cuda::LaunchWalk<cuda::Tf32Operand, cuda::DecayAxis::kKey>(problem, plan, stream);
}

int GradientWalkTf32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan,
                     CUstream_st* stream) {
  return cuda::LaunchWalk<cuda::Tf32Operand, cuda::DecayAxis::kValue>(problem, plan, stream);
}

int ReadWalkFp32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan,
                 CUstream_st* stream) {
  return cuda::LaunchWalk<cuda::Fp32Operand, cuda::DecayAxis::kKey>(problem, plan, stream);
}

int GradientWalkFp32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan,
                     CUstream_st* stream) {
  return cuda::LaunchWalk<cuda::Fp32Operand, cuda::DecayAxis::kValue>(problem, plan, stream);
}

int DecayGradientFp32(const cuda::DecayGradientProblem& problem, CUstream_st* stream) {
  return cuda::LaunchVectorDecayGradient<cuda::Fp32Operand>(problem, stream);
}

}  // namespace mixerbench::kernels::vector_decay
