// What the host does for kernels made of hopper.cuh: descriptions of matrices whose tiles they
// copy, launches in clusters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/device/hopper.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tensor_map.cuh"

namespace mixerbench::kernels {

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
  return device::MapTensor<2>(
      {.data = matrix.data,
       .sizes = {static_cast<cuuint64_t>(matrix.width), static_cast<cuuint64_t>(matrix.num_rows)},
       .strides = {static_cast<cuuint64_t>(matrix.stride) * sizeof(__nv_bfloat16)},
       .box = {copied.columns, copied.rows}},
      copied.columns == kNarrowWidth ? CU_TENSOR_MAP_SWIZZLE_32B : CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, map);
}

// Blocks in clusters, with dynamic shared memory beyond 48 KB too.
template <typename... Parameters, typename... Arguments>
cudaError_t LaunchClusters(void (*kernel)(Parameters...), int num_clusters, unsigned cluster_size,
                           int num_threads, std::size_t shared_bytes, CUstream_st* stream,
                           const Arguments&... arguments) {
  const cudaError_t status = device::AllowSharedMemory(kernel);
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

}  // namespace mixerbench::kernels
