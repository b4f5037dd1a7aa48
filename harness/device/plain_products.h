// Plain ATen in a precision: what a program without device code of its own computes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/DeviceType.h>

#include "kernels/runtime/plain_aten.h"

namespace mixerbench::harness {

// While it lives, the fast path of this thread runs no device code (kernels/runtime/plain_aten.h)
// and, with `in_bf16`, products take their operands in bf16, as under torch.autocast.
class PlainProducts {
 public:
  PlainProducts(c10::DeviceType device, bool in_bf16);
  ~PlainProducts();
  PlainProducts(const PlainProducts&) = delete;
  PlainProducts& operator=(const PlainProducts&) = delete;

 private:
  kernels::PlainAten plain_aten_;
  c10::DeviceType device_;
  bool in_bf16_;
};

}  // namespace mixerbench::harness
