// Starting a kernel with the shared memory it wants.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace mixerbench::kernels::device {

// Lets `kernel` have as much dynamic shared memory as the device gives a block. The value is the
// same in every call: threads that launch one kernel with different sizes must not lower it for
// each other.
template <typename... Parameters>
cudaError_t AllowSharedMemory(void (*kernel)(Parameters...)) {
  int device = 0;
  int limit = 0;
  cudaFuncAttributes attributes = {};
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  if (status == cudaSuccess) {
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  limit - static_cast<int>(attributes.sharedSizeBytes));
  }
  return status;
}

// Launches `kernel` with dynamic shared memory, beyond 48 KB too. Leaves no error behind but the
// one it returns.
template <typename... Parameters, typename... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), std::int64_t num_blocks, int num_threads,
                   std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
  const cudaError_t status = AllowSharedMemory(kernel);
  if (status == cudaSuccess) {
    kernel<<<static_cast<unsigned>(num_blocks), static_cast<unsigned>(num_threads), shared_bytes,
             stream>>>(arguments...);
  }
  const cudaError_t launched = cudaGetLastError();
  return status != cudaSuccess ? status : launched;
}

}  // namespace mixerbench::kernels::device
