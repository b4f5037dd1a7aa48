// Descriptions of tensors of which kernels copy boxes by the tensor copy engine (TMA), made on the
// host. Functions of the driver, found through the runtime: the program does not link the driver.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

namespace mixerbench::kernels::device {

// A bf16 tensor of kRank axes, the innermost first; that one is dense. `data` and `strides`, of the
// other axes in bytes, are multiples of 16.
template <int kRank>
struct TensorAxes {
  const void* data;
  cuuint64_t sizes[kRank];
  cuuint64_t strides[kRank - 1];
  cuuint32_t box[kRank];  // elements that one copy moves
};

// Describes the tensor in `map`: boxes lie swizzled in shared memory, and what they have beyond the
// tensor's ends is zero. Returns the CUDA error code.
template <int kRank>
cudaError_t MapTensor(const TensorAxes<kRank>& tensor, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion promotion, CUtensorMap* map) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                        cudaEnableDefault, &found);
  // Functions of the runtime make the device's context current in this thread, those of the driver
  // do not, and a backward pass may be the first work of its thread.
  int device = 0;
  if (status == cudaSuccess) status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaSetDevice(device);
  if (status != cudaSuccess) return status;
  if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  cuuint32_t steps[kRank];
  for (cuuint32_t& step : steps) step = 1;
  const CUresult result =
      encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kRank, const_cast<void*>(tensor.data),
             tensor.sizes, tensor.strides, tensor.box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace mixerbench::kernels::device
