// The scans of simple GLA with fp32 operands. A file for each, so that they compile at the same
// time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/scan/decay_scan_launch.cuh"
#include "kernels/linear_attention/simple_gla/simple_gla_gradient.cuh"
#include "kernels/linear_attention/simple_gla/simple_gla_kernels.h"

namespace mixerbench::kernels::simple_gla {

int ScanFp32(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
             CUstream_st* stream) {
  return decay_scan::LaunchScan<device::Fp32Operand, decay_scan::DecayAxis::kNone>(problem, plan,
                                                                                   stream);
}

int DecayGradientFp32(const decay_scan::DecayGradientProblem& problem, CUstream_st* stream) {
  return LaunchChunkGradient<device::Fp32Operand>(problem, stream);
}

}  // namespace mixerbench::kernels::simple_gla
