// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "kernels/device/hopper_cuda.h"

namespace mixerbench::kernels {

bool IsHopper(int device) {
  int major = 0;
  int minor = 0;
  return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
         major == 9 && minor == 0;
}

}  // namespace mixerbench::kernels
