// A kernel whose blocks start while the kernel before it still runs, and wait there for its
// results: the start of a short kernel costs as much as its work. Both parts must know: the one
// before says LetNextStart(), the one after, launched by LaunchEarly, says WaitForPrevious() before
// it touches memory. GPUs before compute capability 9.0 run one after the other, as ever.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

namespace mixerbench::kernels {

// From here on blocks of the next kernel may take what room this one leaves, once every block of
// this one has come here. Says nothing about memory.
__device__ inline void LetNextStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Returns when the kernel before has ended and all that it wrote is visible. Every thread that
// touches memory calls it, in every launch: also the kernels after this one rely on the order.
__device__ inline void WaitForPrevious() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// kernel<<<grid, block, shared_bytes, stream>>>(args...), early. Returns the CUDA error code.
template <typename... Parameters, typename... Args>
cudaError_t LaunchEarlyWith(std::size_t shared_bytes, void (*kernel)(Parameters...), dim3 grid,
                            dim3 block, cudaStream_t stream, const Args&... args) {
  int device = 0;
  int major = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = major >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, Parameters(args)...);
}

// The same without dynamic shared memory.
template <typename... Parameters, typename... Args>
cudaError_t LaunchEarly(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
                        const Args&... args) {
  return LaunchEarlyWith(0, kernel, grid, block, stream, args...);
}

}  // namespace mixerbench::kernels
