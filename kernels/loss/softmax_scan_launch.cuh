// Starting the kernels of a scan (softmax_scan.cuh) for the head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernels/device/hopper_launch.cuh"
#include "kernels/loss/linear_cross_entropy_cuda.h"
#include "kernels/loss/softmax_scan.cuh"

namespace mixerbench::kernels {

static_assert(kHeadTile == kScanTile);

// How tiles of a bf16 matrix are copied.
inline cudaError_t MapTiles(const void* data, long long num_rows, long long stride, int width,
                            CUtensorMap* map) {
  return MapMatrix({.data = data, .num_rows = num_rows, .stride = stride, .width = width},
                   {.rows = kScanTile, .columns = kPanelWidth}, map);
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

// A kernel of the scan, whose first arguments are (args, cut, maps).
template <int kWidth, typename Kernel>
int LaunchScan(Kernel kernel, int num_clusters, unsigned cluster_size,
               const LinearCrossEntropyArgs& args, CUstream_st* stream) {
  HeadMaps maps;
  const cudaError_t status = MapOperands(args, &maps);
  if (status != cudaSuccess) return status;
  return LaunchClusters(kernel, num_clusters, cluster_size, kScanThreads, ScanBytes<kWidth>(),
                        stream, args, CutLinearCrossEntropy(args.sizes), maps);
}

}  // namespace mixerbench::kernels
