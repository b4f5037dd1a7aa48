// The scans of simple GLA with bf16 operands. A file for each, so that they compile at the same
// time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/scan/decay_scan_launch.cuh"
#include "kernels/linear_attention/simple_gla/simple_gla_gradient.cuh"
#include "kernels/linear_attention/simple_gla/simple_gla_kernels.h"

namespace mixerbench::kernels::simple_gla {

int ScanBf16(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
             CUstream_st* stream) {
  if (plan.uses_wgmma) return ScanChunksBf16(problem, plan, stream);
  return decay_scan::LaunchScan<device::Bf16Operand, decay_scan::DecayAxis::kNone>(problem, plan,
                                                                                   stream);
}

int DecayGradientBf16(const decay_scan::DecayGradientProblem& problem, CUstream_st* stream) {
  if (problem.q_products != nullptr) return DecayGradientOfSums(problem, stream);
  return LaunchChunkGradient<device::Bf16Operand>(problem, stream);
}

}  // namespace mixerbench::kernels::simple_gla
