// Linked together with the device functions.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/device/launch.h"

namespace mixerbench::kernels {

bool HasDeviceFunctions() { return true; }

}  // namespace mixerbench::kernels
