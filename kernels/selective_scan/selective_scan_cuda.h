// The selective scan on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/plan.h"
#include "kernels/selective_scan/prepare.h"
#include "kernels/selective_scan/selective_scan.h"

namespace mixerbench::kernels::selective_scan {

// The core by device code, differentiable once; refused when the program was linked without CUDA or
// has no device code for these tensors. Records the plan.
DeviceAttempt<SelectiveScanResult> RunOnCuda(const SelectiveScanArgs& args,
                                             const PreparedScan& sizes);

}  // namespace mixerbench::kernels::selective_scan
