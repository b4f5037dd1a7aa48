// Linked together with the device functions.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/launch.h"

namespace mixerbench::kernels::fused {

bool HasDeviceFunctions() { return true; }

}  // namespace mixerbench::kernels::fused
