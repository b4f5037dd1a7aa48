// The device code of simple GLA. See kernels/linear_attention/scan/decay_scan.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/scan/decay_scan.h"

namespace mixerbench::kernels::simple_gla {

int ScanBf16(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
             CUstream_st* stream);
// For plans that scan by chunks.
int ScanChunksBf16(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
                   CUstream_st* stream);
int ScanTf32(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
             CUstream_st* stream);
int ScanFp32(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
             CUstream_st* stream);

// d_log_decay [B,T,H]; of scans by blocks from saved states, of fp32 tensors in any precision.
int DecayGradientBf16(const decay_scan::DecayGradientProblem& problem, CUstream_st* stream);
int DecayGradientFp32(const decay_scan::DecayGradientProblem& problem, CUstream_st* stream);
// From the sums over channels that scans by chunks leave behind.
int DecayGradientOfSums(const decay_scan::DecayGradientProblem& problem, CUstream_st* stream);

}  // namespace mixerbench::kernels::simple_gla
