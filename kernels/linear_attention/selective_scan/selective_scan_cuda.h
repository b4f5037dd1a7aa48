// The selective scan on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/selective_scan/prepare.h"
#include "kernels/linear_attention/selective_scan/selective_scan.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::selective_scan {

// The core by device code, differentiable once; refused when the program was linked without CUDA or
// has no device code for these tensors. Records the plan.
DeviceAttempt<SelectiveScanResult> RunOnCuda(const SelectiveScanArgs& args,
                                             const PreparedScan& sizes);

}  // namespace mixerbench::kernels::selective_scan
