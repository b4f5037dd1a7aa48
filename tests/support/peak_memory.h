// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace mixerbench::testing {

// Most bytes of tensors on the CPU that `work` held at once, beyond those that were there before.
// What other threads allocate is not seen.
std::int64_t PeakTensorBytes(const std::function<void()>& work);

}  // namespace mixerbench::testing
