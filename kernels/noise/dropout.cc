// SPDX-License-Identifier: Apache-2.0
#include "kernels/noise/dropout.h"

#include <ATen/ops/empty.h>

#include "base/check.h"
#include "kernels/device/launch.h"
#include "kernels/noise/dropout_cuda.h"

namespace mixerbench::kernels {

double KeptShare(double p) {
  return 1 - static_cast<double>(MakeDropoutRule(p).threshold) / (1 << kDropoutBits);
}

at::Tensor DropoutMask(at::IntArrayRef sizes, double p, const at::Tensor& seed) {
  Require(p >= 0 && p < 1, "a probability of dropout is in [0,1)");
  Require(seed.scalar_type() == at::kLong && seed.numel() == 1, "a seed is one int64");
  const at::Tensor mask = at::empty(sizes, seed.options().dtype(at::kFloat));
  auto* values = mask.mutable_data_ptr<float>();
  const DropoutRule rule{MakeDropoutRule(p).threshold, 1};
  if (seed.is_cuda()) {
    OnDeviceOf(seed, "DropoutMask", [&](CUstream_st* stream) {
      return LaunchDropoutMask({.rule = rule,
                                .seed = seed.const_data_ptr<std::int64_t>(),
                                .mask = values,
                                .size = mask.numel()},
                               stream);
    });
    return mask;
  }
  const auto key = static_cast<std::uint64_t>(*seed.const_data_ptr<std::int64_t>());
  for (std::int64_t first = 0; first < mask.numel(); first += kDropoutBlock) {
    const DropoutFactors factors =
        DropoutBlock(rule, key, static_cast<std::uint64_t>(first / kDropoutBlock));
    for (std::int64_t i = 0; i < kDropoutBlock && first + i < mask.numel(); ++i) {
      values[first + i] = factors.x[i];
    }
  }
  return mask;
}

}  // namespace mixerbench::kernels
