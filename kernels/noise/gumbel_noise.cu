// Gumbel noise in memory. A thread writes the elements of one Philox block.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/noise/gumbel_noise_cuda.h"
#include "kernels/noise/keyed_gumbel.h"

namespace mixerbench::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) GumbelNoiseKernel(const GumbelNoiseArgs args) {
  const long long block = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (kGumbelBlock * block >= args.size) return;
  const GumbelNoiseBlock noise =
      GumbelBlock(static_cast<std::uint64_t>(*args.seed), static_cast<std::uint64_t>(block));
#pragma unroll
  for (int i = 0; i < kGumbelBlock; ++i) {
    if (kGumbelBlock * block + i < args.size) args.noise[kGumbelBlock * block + i] = noise.x[i];
  }
}

}  // namespace

int LaunchGumbelNoise(const GumbelNoiseArgs& args, CUstream_st* stream) {
  if (args.size == 0) return cudaSuccess;
  const long long threads = (args.size + kGumbelBlock - 1) / kGumbelBlock;
  GumbelNoiseKernel<<<static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0,
                      stream>>>(args);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels
