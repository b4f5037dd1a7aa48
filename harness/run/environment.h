// What the numbers were made with: versions, device, numerics. No host, user or path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include "base/value.h"
#include "harness/suite/train_config.h"

namespace mixerbench::harness {

Value DescribeEnvironment(at::Device device, Dtype dtype, bool is_strict);

}  // namespace mixerbench::harness
