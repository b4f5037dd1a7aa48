// The scans of GLA to dq and dk with bf16 operands. A file for each, so that they compile
// at the same time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/gla/gla_kernels.h"
#include "kernels/linear_attention/scan/decay_gradient.cuh"
#include "kernels/linear_attention/scan/decay_scan_launch.cuh"

namespace mixerbench::kernels::gla {

int GradientScanBf16(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
                     CUstream_st* stream) {
  return decay_scan::LaunchScan<device::Bf16Operand, decay_scan::DecayAxis::kValue>(problem, plan,
                                                                                    stream);
}

int DecayGradientBf16(const decay_scan::DecayGradientProblem& problem, CUstream_st* stream) {
  return decay_scan::LaunchGlaGradient<device::Bf16Operand>(problem, stream);
}

}  // namespace mixerbench::kernels::gla
