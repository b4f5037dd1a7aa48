// The scans of simple GLA in chunks, with bf16 operands.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/scan/wgmma_scan.cuh"
#include "kernels/linear_attention/simple_gla/simple_gla_kernels.h"

namespace mixerbench::kernels::simple_gla {

int ScanChunksBf16(const decay_scan::ScanProblem& problem, const decay_scan::ScanPlan& plan,
                   CUstream_st* stream) {
  return problem.key_dim <= 64 ? decay_scan::LaunchWgmmaScan<64>(problem, plan, stream)
                               : decay_scan::LaunchWgmmaScan<128>(problem, plan, stream);
}

}  // namespace mixerbench::kernels::simple_gla
