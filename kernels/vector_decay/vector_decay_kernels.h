// The device code of vector decay. See kernels/cuda/decay_walk.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/decay_rows.h"
#include "kernels/cuda/decay_walk.h"

namespace mixerbench::kernels::vector_decay {

// To o and dv: the decays are on the channels of q and k, the keys of these walks.
int ReadWalkBf16(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan, CUstream_st* stream);
int ReadWalkTf32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan, CUstream_st* stream);
int ReadWalkFp32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan, CUstream_st* stream);

// To dq and dk: the decays are on the channels of k and q, the values of these walks.
int GradientWalkBf16(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan,
                     CUstream_st* stream);
int GradientWalkTf32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan,
                     CUstream_st* stream);
int GradientWalkFp32(const cuda::WalkProblem& problem, const cuda::WalkPlan& plan,
                     CUstream_st* stream);

// d_log_decay [B,T,H,K]
int DecayGradientBf16(const cuda::DecayGradientProblem& problem, CUstream_st* stream);
int DecayGradientFp32(const cuda::DecayGradientProblem& problem, CUstream_st* stream);

// Chosen rows: kernels/cuda/decay_rows.h.
int RowsForward(const cuda::DecayRowsProblem& problem, CUstream_st* stream);
int RowsBackward(const cuda::DecayRowsProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::vector_decay
