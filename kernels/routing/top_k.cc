// SPDX-License-Identifier: Apache-2.0
#include "kernels/routing/top_k.h"

#include <tuple>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>

#include "base/check.h"
#include "kernels/device/launch.h"
#include "kernels/routing/top_k_cuda.h"

namespace mixerbench::kernels {

at::Tensor TopK(const at::Tensor& x, std::int64_t k) {
  Require(x.is_floating_point() && x.dim() > 0, "x must be floating and have an axis");
  const std::int64_t width = x.size(-1);
  Require(k >= 1 && k <= width, "k must be from 1 to the number of choices");
  if (!RunsOnDevice(x) || x.scalar_type() != at::kFloat || width > kMaxTopKWidth) {
    const auto sorted = at::sort(x.detach(), /*stable=*/true, /*dim=*/-1, /*descending=*/true);
    return std::get<1>(sorted).narrow(-1, 0, k);
  }
  const at::Tensor rows = x.detach().contiguous();
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = k;
  const at::Tensor places = at::empty(sizes, x.options().dtype(at::kLong).requires_grad(false));
  OnDeviceOf(x, "TopK", [&](CUstream_st* stream) {
    return LaunchTopK({.x = rows.const_data_ptr<float>(),
                       .places = places.mutable_data_ptr<std::int64_t>(),
                       .num_rows = rows.numel() / width,
                       .width = static_cast<int>(width),
                       .k = static_cast<int>(k)},
                      stream);
  });
  return places;
}

}  // namespace mixerbench::kernels
