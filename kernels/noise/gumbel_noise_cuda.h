// Device function of gumbel_noise.h on raw pointers. gumbel_noise.cu defines it; device_stub.cc
// does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

struct CUstream_st;

namespace mixerbench::kernels {

struct GumbelNoiseArgs {
  const std::int64_t* seed = nullptr;  // on the device
  float* noise = nullptr;
  long long size = 0;
};

// Queues the work; returns the CUDA error code of the launch.
int LaunchGumbelNoise(const GumbelNoiseArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
