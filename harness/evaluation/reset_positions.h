// Which positions of a batch an intervention on write gates is about.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "harness/suite/write_gate_reset.h"

namespace mixerbench::harness {

// inputs [B,T], of samples `first`..first+B-1 of a segment -> [B,T] bool on their device. What is
// drawn depends on the sample and the position alone, not on the batch.
at::Tensor ResetPositions(const WriteGateReset& reset, const at::Tensor& inputs,
                          std::int64_t first);

}  // namespace mixerbench::harness
