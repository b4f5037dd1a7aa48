// Device function of dropout.h on raw pointers. dropout.cu defines it; device_stub.cc does in
// builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/noise/keyed_dropout.h"

struct CUstream_st;

namespace mixerbench::kernels {

struct DropoutMaskArgs {
  DropoutRule rule;
  const std::int64_t* seed = nullptr;  // on the device
  float* mask = nullptr;               // 0 or rule.scale
  long long size = 0;
};

// Queues the work; returns the CUDA error code of the launch.
int LaunchDropoutMask(const DropoutMaskArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
