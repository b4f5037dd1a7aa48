// Rows of a matrix copied by a list of indices or in order. A thread moves 16 bytes.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/fused/rows_device.h"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) CopyRowsKernel(const CopyRowsArgs args) {
  const long long vectors = args.row_bytes / 16;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const long long target_row = i / vectors;
  if (target_row >= args.num_rows) return;
  const long long byte = (i - target_row * vectors) * 16;
  const long long row = args.rows == nullptr ? target_row : args.rows[target_row];
  const bool exists = args.source != nullptr && row >= 0 && row < args.num_source_rows;
  const char* source = static_cast<const char*>(args.source) + row * args.source_stride + byte;
  char* target = static_cast<char*>(args.target) + target_row * args.target_stride + byte;
  *reinterpret_cast<uint4*>(target) =
      exists ? *reinterpret_cast<const uint4*>(source) : make_uint4(0, 0, 0, 0);
}

}  // namespace

int LaunchCopyRows(const CopyRowsArgs& args, CUstream_st* stream) {
  if (args.num_rows == 0 || args.row_bytes == 0) return cudaSuccess;
  const long long vectors = args.num_rows * (args.row_bytes / 16);
  CopyRowsKernel<<<static_cast<unsigned>((vectors + kThreads - 1) / kThreads), kThreads, 0,
                   stream>>>(args);
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels::fused
