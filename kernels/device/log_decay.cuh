// Log decays as device code takes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mixerbench::kernels::device {

// e^x is zero here and below, for Exp2 knows no numbers smaller than 2^-126: a state is reset.
// Stronger log decays, -infinity among them, count as this one, so that their sums and the
// differences of sums are finite. The room above 2^-126 is for the rounding of such differences.
constexpr float kResetLogDecay = -89;

// NaN stays NaN.
__device__ inline float BoundedLogDecay(float g) { return g < kResetLogDecay ? kResetLogDecay : g; }

// Whether nothing depends on a log decay. `g` may be the difference of two sums.
__device__ inline bool IsReset(float g) { return g < kResetLogDecay + 0.5F; }

}  // namespace mixerbench::kernels::device
