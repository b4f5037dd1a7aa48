// The mask of a dropout in memory. A thread writes the elements of one Philox block.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/noise/dropout_cuda.h"

namespace mixerbench::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) DropoutMaskKernel(const DropoutMaskArgs args) {
  const long long block = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (kDropoutBlock * block >= args.size) return;
  const DropoutFactors factors = DropoutBlock(args.rule, static_cast<std::uint64_t>(*args.seed),
                                              static_cast<std::uint64_t>(block));
#pragma unroll
  for (int i = 0; i < kDropoutBlock; ++i) {
    if (kDropoutBlock * block + i < args.size) args.mask[kDropoutBlock * block + i] = factors.x[i];
  }
}

}  // namespace

int LaunchDropoutMask(const DropoutMaskArgs& args, CUstream_st* stream) {
  if (args.size == 0) return cudaSuccess;
  const long long threads = (args.size + kDropoutBlock - 1) / kDropoutBlock;
  DropoutMaskKernel<<<static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0,
                      stream>>>(args);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels
