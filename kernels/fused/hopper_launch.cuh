// What the host does for kernels made of hopper.cuh: descriptions of matrices whose tiles they
// copy, launches in clusters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/fused/hopper.cuh"

namespace mixerbench::kernels::fused {

// Makes the device's context current in this thread. Functions of the runtime do it by themselves,
// those of the driver do not, and a backward pass may be the first work of its thread.
inline cudaError_t MakeContextCurrent() {
  int device = 0;
  const cudaError_t status = cudaGetDevice(&device);
  return status != cudaSuccess ? status : cudaSetDevice(device);
}

// A row-major bf16 matrix; data and stride (in elements) at multiples of 16 bytes.
struct TiledMatrix {
  const void* data;
  long long num_rows;
  long long stride;
  int width;
};

// What one copy moves: columns of a panel, or of a tile of kNarrowWidth columns.
struct CopyBox {
  unsigned rows;
  unsigned columns;
};

inline cudaError_t MapMatrix(const TiledMatrix& matrix, const CopyBox& copied, CUtensorMap* map) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                        cudaEnableDefault, &found);
  if (status == cudaSuccess) status = MakeContextCurrent();
  if (status != cudaSuccess) return status;
  if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.width),
                              static_cast<cuuint64_t>(matrix.num_rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(matrix.stride) * sizeof(__nv_bfloat16)};
  const cuuint32_t box[] = {copied.columns, copied.rows};
  const cuuint32_t steps[] = {1, 1};
  const CUtensorMapSwizzle swizzle =
      copied.columns == kNarrowWidth ? CU_TENSOR_MAP_SWIZZLE_32B : CU_TENSOR_MAP_SWIZZLE_128B;
  const CUresult result =
      encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(matrix.data), sizes,
             strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Blocks in clusters, with dynamic shared memory beyond 48 KB too.
template <typename... Parameters, typename... Arguments>
cudaError_t LaunchClusters(void (*kernel)(Parameters...), int num_clusters, unsigned cluster_size,
                           int num_threads, std::size_t shared_bytes, CUstream_st* stream,
                           const Arguments&... arguments) {
  const cudaError_t status = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {cluster_size, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(num_clusters) * cluster_size);
  config.blockDim = dim3(static_cast<unsigned>(num_threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace mixerbench::kernels::fused
