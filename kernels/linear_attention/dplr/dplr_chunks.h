// The chunk form and its backward pass, of finite tokens: dplr.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_attention/dplr/dplr.h"
#include "kernels/linear_attention/recurrence.h"

namespace mixerbench::kernels::dplr {

RecurrenceResult RunInChunks(const DplrArgs& args, const PreparedRecurrence& sizes);

}  // namespace mixerbench::kernels::dplr
