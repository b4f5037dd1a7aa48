// Starting the kernels of a walk (softmax_walk.cuh) for the head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/fused/linear_cross_entropy_device.h"
#include "kernels/fused/softmax_walk.cuh"

namespace mixerbench::kernels::fused {

static_assert(kHeadTile == kWalkTile);

// Makes the device's context current in this thread. Functions of the runtime do it by themselves,
// those of the driver do not, and a backward pass may be the first work of its thread.
inline cudaError_t MakeContextCurrent() {
  int device = 0;
  const cudaError_t status = cudaGetDevice(&device);
  return status != cudaSuccess ? status : cudaSetDevice(device);
}

// How tiles of a bf16 matrix are copied.
inline cudaError_t MapTiles(const void* data, long long num_rows, long long stride, int width,
                            CUtensorMap* map) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                        cudaEnableDefault, &found);
  if (status == cudaSuccess) status = MakeContextCurrent();
  if (status != cudaSuccess) return status;
  if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(num_rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * sizeof(__nv_bfloat16)};
  const cuuint32_t box[] = {kPanelWidth, kWalkTile};
  const cuuint32_t steps[] = {1, 1};
  const CUresult result =
      encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(data), sizes, strides, box,
             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// The hidden states and the weight of the head.
struct HeadMaps {
  CUtensorMap hidden;
  CUtensorMap weight;
};

inline cudaError_t MapOperands(const LinearCrossEntropyArgs& args, HeadMaps* maps) {
  const LinearCrossEntropySizes& sizes = args.sizes;
  const cudaError_t status =
      MapTiles(args.hidden, sizes.num_rows, args.hidden_stride, sizes.width, &maps->hidden);
  if (status != cudaSuccess) return status;
  return MapTiles(args.weight, sizes.vocab_size, args.weight_stride, sizes.width, &maps->weight);
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

// A kernel of the walk, whose first arguments are (args, cut, maps).
template <int kWidth, typename Kernel>
int LaunchWalk(Kernel kernel, int num_clusters, unsigned cluster_size,
               const LinearCrossEntropyArgs& args, CUstream_st* stream) {
  HeadMaps maps;
  const cudaError_t status = MapOperands(args, &maps);
  if (status != cudaSuccess) return status;
  return LaunchClusters(kernel, num_clusters, cluster_size, kWalkThreads, WalkBytes<kWidth>(),
                        stream, args, CutLinearCrossEntropy(args.sizes), maps);
}

}  // namespace mixerbench::kernels::fused
