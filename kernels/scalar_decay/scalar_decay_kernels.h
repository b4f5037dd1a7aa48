// The device code of scalar decay. See kernels/cuda/decay_walk.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/decay_walk.h"

namespace mixerbench::kernels::scalar_decay {

int WalkBf16(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan, CUstream_st* stream);
// For plans that walk by chunks.
int WalkChunksBf16(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan,
                   CUstream_st* stream);
int WalkTf32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan, CUstream_st* stream);
int WalkFp32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan, CUstream_st* stream);

// d_log_decay [B,T,H]; of walks by blocks from saved states, of fp32 tensors in any precision.
int DecayGradientBf16(const cuda::DecayGradientProblem& problem, CUstream_st* stream);
int DecayGradientFp32(const cuda::DecayGradientProblem& problem, CUstream_st* stream);
// From the sums over channels that walks by chunks leave behind.
int DecayGradientOfSums(const cuda::DecayGradientProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::scalar_decay
