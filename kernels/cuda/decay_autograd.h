// Scalar and vector decay on a CUDA device, with gradients: four walks (decay_walk.md) behind one
// autograd function. Linked with CUDA only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "kernels/cuda/decay_walk.h"
#include "kernels/plan.h"
#include "kernels/recurrence.h"

namespace mixerbench::kernels::cuda {

// The device code of one core; arrays are indexed by OperandPrecision.
struct DecayKernels {
  const char* core = "";
  DecayAxis read_axis = DecayAxis::kNone;      // of the walks to o and dv
  DecayAxis gradient_axis = DecayAxis::kNone;  // of the walks to dq and dk
  std::array<WalkFunction, 3> read_walk = {};
  std::array<WalkFunction, 3> gradient_walk = {};
  std::array<DecayGradientFunction, 3> decay_gradient = {};
};

// Refused: tensors of another device, fp64, heads that DecayWalkPlans do not take, no decay for a
// core whose walks need one. Records the plan. `kernels` must outlive the autograd graph. The
// backward pass throws std::logic_error when it is itself to be differentiated.
DeviceAttempt<RecurrenceResult> RunDecayWalks(const RecurrenceArgs& args,
                                              const PreparedRecurrence& sizes,
                                              const DecayKernels& kernels,
                                              std::optional<OperandPrecision> products = {});

}  // namespace mixerbench::kernels::cuda
