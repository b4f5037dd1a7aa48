// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/rotary.h"

#include <cmath>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include "base/check.h"
#include "models/blocks/dtype.h"

namespace mixerbench::models {

at::Tensor RotateHalf(const at::Tensor& x, std::int64_t first_position, std::int64_t rotary_dim,
                      double base) {
  Require(x.dim() == 4 && rotary_dim % 2 == 0 && rotary_dim <= x.size(3),
          "rotary: x is [B,T,H,K] and rotary_dim is even and at most K");
  const std::int64_t half = rotary_dim / 2;
  const at::Tensor wide = AtLeastFloat(x);
  const auto options = wide.options().dtype(at::kDouble);
  const at::Tensor position = at::arange(first_position, first_position + x.size(1), options);
  const at::Tensor frequency =
      (at::arange(half, options) * (-2 * std::log(base) / static_cast<double>(rotary_dim))).exp();
  const at::Tensor angle = position.unsqueeze(1) * frequency;              // [T,half]
  const at::Tensor cos = angle.cos().to(wide.scalar_type()).unsqueeze(1);  // [T,1,half]
  const at::Tensor sin = angle.sin().to(wide.scalar_type()).unsqueeze(1);
  const at::Tensor first = wide.narrow(-1, 0, half);
  const at::Tensor second = wide.narrow(-1, half, half);
  return at::cat({first * cos - second * sin, second * cos + first * sin,
                  wide.narrow(-1, rotary_dim, x.size(3) - rotary_dim)},
                 -1)
      .to(x.scalar_type());
}

}  // namespace mixerbench::models
