// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/softmax_attention/softmax_attention_kernels.h"
#include "kernels/device/launch.cuh"

namespace mixerbench::kernels::softmax_attention {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) FillKernel(const DropoutMask mask) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index < mask.num_groups()) FillGroup(mask, index);
}

}  // namespace

int FillDropoutMask(const DropoutMask& mask, CUstream_st* stream) {
  return device::Launch(FillKernel, (mask.num_groups() + kThreads - 1) / kThreads, kThreads, 0,
                        stream, mask);
}

}  // namespace mixerbench::kernels::softmax_attention
