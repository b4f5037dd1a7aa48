// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/plain_aten.h"

namespace mixerbench::kernels {

thread_local bool PlainAten::asked_ = false;

}  // namespace mixerbench::kernels
