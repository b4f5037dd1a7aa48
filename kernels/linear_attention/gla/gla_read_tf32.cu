// The scans of GLA to o and dv with tf32 operands. A file for each, so that they compile
// at the same time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/gla/gla_kernels.h"
#include "kernels/linear_attention/scan/decay_scan_launch.cuh"

namespace mixerbench::kernels::gla {

int ReadScanTf32(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
                 CUstream_st* stream) {
  return decay_scan::LaunchScan<device::Tf32Operand, decay_scan::DecayAxis::kKey>(problem, plan,
                                                                                  stream);
}

}  // namespace mixerbench::kernels::gla
