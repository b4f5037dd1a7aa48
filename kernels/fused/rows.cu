// Rows of a matrix gathered by a list of indices. A thread moves 16 bytes.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/fused/rows_device.h"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) GatherRowsKernel(const GatherRowsArgs args) {
  const long long vectors = args.row_bytes / 16;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= args.num_rows * vectors) return;
  const long long row = args.rows[i / vectors];
  const bool exists = row >= 0 && row < args.num_source_rows;
  static_cast<uint4*>(args.target)[i] =
      exists ? static_cast<const uint4*>(args.source)[row * vectors + i % vectors]
             : make_uint4(0, 0, 0, 0);
}

}  // namespace

int LaunchGatherRows(const GatherRowsArgs& args, CUstream_st* stream) {
  if (args.num_rows == 0) return cudaSuccess;
  const long long vectors = args.num_rows * (args.row_bytes / 16);
  GatherRowsKernel<<<static_cast<unsigned>((vectors + kThreads - 1) / kThreads), kThreads, 0,
                     stream>>>(args);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels::fused
