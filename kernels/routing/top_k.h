// Choices of routers, the same on every device and in every run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mixerbench::kernels {

// The places [..., k] (int64) of the k largest of x [..., N], the largest first; of equal ones the
// first in x comes first, NaN counts as the largest. Floating x; 1 <= k <= N. No gradients.
// Cost: a stable sort; on a GPU for fp32 rows of at most 1024, N^2 comparisons a row by a warp.
at::Tensor TopK(const at::Tensor& x, std::int64_t k);

}  // namespace mixerbench::kernels
