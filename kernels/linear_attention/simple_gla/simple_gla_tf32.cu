// The scans of simple GLA with tf32 operands. A file for each, so that they compile at the same
// time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/scan/decay_scan_launch.cuh"
#include "kernels/linear_attention/simple_gla/simple_gla_kernels.h"

namespace mixerbench::kernels::simple_gla {

int ScanTf32(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
             CUstream_st* stream) {
  return decay_scan::LaunchScan<device::Tf32Operand, decay_scan::DecayAxis::kNone>(problem, plan,
                                                                                   stream);
}

}  // namespace mixerbench::kernels::simple_gla
