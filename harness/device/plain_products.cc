// SPDX-License-Identifier: Apache-2.0
#include "harness/device/plain_products.h"

#include <ATen/autocast_mode.h>

namespace mixerbench::harness {

PlainProducts::PlainProducts(c10::DeviceType device, bool in_bf16)
    : device_(device), in_bf16_(in_bf16) {
  if (!in_bf16_) return;
  at::autocast::set_autocast_dtype(device_, at::kBFloat16);
  at::autocast::set_autocast_enabled(device_, true);
}

PlainProducts::~PlainProducts() {
  if (!in_bf16_) return;
  at::autocast::set_autocast_enabled(device_, false);
  at::autocast::clear_cache();
}

}  // namespace mixerbench::harness
