// The mask of a dropout in memory. A thread writes the four elements of one Philox block.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/fused/dropout_device.h"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) DropoutMaskKernel(const DropoutMaskArgs args) {
  const long long block = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (4 * block >= args.size) return;
  const DropoutFactors factors = DropoutBlock(args.rule, static_cast<std::uint64_t>(*args.seed),
                                              static_cast<std::uint64_t>(block));
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (4 * block + i < args.size) args.mask[4 * block + i] = factors.x[i];
  }
}

}  // namespace

int LaunchDropoutMask(const DropoutMaskArgs& args, CUstream_st* stream) {
  if (args.size == 0) return cudaSuccess;
  const long long threads = (args.size + 3) / 4;
  DropoutMaskKernel<<<static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0,
                      stream>>>(args);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels::fused
