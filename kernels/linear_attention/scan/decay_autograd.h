// Simple GLA and GLA on a CUDA device, with gradients: four scans (decay_scan.md) behind one
// autograd function. Linked with CUDA only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "kernels/linear_attention/recurrence.h"
#include "kernels/linear_attention/scan/decay_scan.h"
#include "kernels/runtime/plan.h"

namespace mixerbench::kernels::decay_scan {

// The device code of one core; arrays are indexed by OperandPrecision.
struct DecayKernels {
  const char* core = "";
  DecayAxis read_axis = DecayAxis::kNone;      // of the scans to o and dv
  DecayAxis gradient_axis = DecayAxis::kNone;  // of the scans to dq and dk
  std::array<ScanFunction, 3> read_scan = {};
  std::array<ScanFunction, 3> gradient_scan = {};
  std::array<DecayGradientFunction, 3> decay_gradient = {};
};

// Refused: tensors of another device, fp64, heads that DecayScanPlans do not take, no decay for a
// core whose scans need one. Records the plan. `kernels` must outlive the autograd graph. The
// backward pass throws std::logic_error when it is itself to be differentiated.
DeviceAttempt<RecurrenceResult> RunDecayScans(const RecurrenceArgs& args,
                                              const PreparedRecurrence& sizes,
                                              const DecayKernels& kernels,
                                              std::optional<OperandPrecision> products = {});

}  // namespace mixerbench::kernels::decay_scan
