// Rows of a matrix copied or added by a list of indices, or copied in order. A thread moves 16
// bytes, or 8 of rows that stand so. Deterministic: each is written by one thread.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/device/vector_io.cuh"
#include "kernels/layout/rows_cuda.h"

namespace mixerbench::kernels {
namespace {

constexpr int kThreads = 256;

// V: the vector that a thread moves.
template <typename V>
__global__ void __launch_bounds__(kThreads) CopyRowsKernel(const CopyRowsArgs args) {
  const long long vectors = args.row_bytes / sizeof(V);
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const long long target_row = i / vectors;
  if (target_row >= args.num_rows) return;
  const long long byte = (i - target_row * vectors) * sizeof(V);
  const long long row = args.rows == nullptr ? target_row : args.rows[target_row];
  const bool exists = args.source != nullptr && row >= 0 && row < args.num_source_rows;
  const char* source = static_cast<const char*>(args.source) + row * args.source_stride + byte;
  char* target = static_cast<char*>(args.target) + target_row * args.target_stride + byte;
  *reinterpret_cast<V*>(target) = exists ? *reinterpret_cast<const V*>(source) : V{};
}

__global__ void __launch_bounds__(kThreads) AddRowsKernel(const AddRowsArgs args) {
  const long long vectors = args.width / kVector;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const long long entry = i / vectors;
  if (entry >= args.num_rows) return;
  const long long row = args.rows[entry];
  if (args.inverse[row] != entry) return;
  const long long column = (i - entry * vectors) * kVector;
  const auto* source = static_cast<const __nv_bfloat16*>(args.source.data);
  auto* target = static_cast<__nv_bfloat16*>(args.target.data) + row * args.target.stride + column;
  const Vector added = LoadPacked(source + entry * args.source.stride + column, true).Unpack();
  Vector sum = LoadPacked(target, true).Unpack();
#pragma unroll
  for (int j = 0; j < kVector; ++j) sum.x[j] += added.x[j];
  StoreBFloat16(target, sum);
}

}  // namespace

int LaunchAddRows(const AddRowsArgs& args, CUstream_st* stream) {
  const long long vectors = args.num_rows * (args.width / kVector);
  if (vectors == 0) return cudaSuccess;
  AddRowsKernel<<<static_cast<unsigned>((vectors + kThreads - 1) / kThreads), kThreads, 0,
                  stream>>>(args);
  return cudaGetLastError();
}

int LaunchCopyRows(const CopyRowsArgs& args, CUstream_st* stream) {
  if (args.num_rows == 0 || args.row_bytes == 0) return cudaSuccess;
  const auto multiple_of_16 = [](const void* data, long long stride) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % 16 == 0;
  };
  const bool wide = multiple_of_16(args.source, args.source_stride) &&
                    multiple_of_16(args.target, args.target_stride) && args.row_bytes % 16 == 0;
  const long long vectors = args.num_rows * (args.row_bytes / (wide ? 16 : 8));
  const auto grid = static_cast<unsigned>((vectors + kThreads - 1) / kThreads);
  if (wide) {
    CopyRowsKernel<uint4><<<grid, kThreads, 0, stream>>>(args);
  } else {
    CopyRowsKernel<uint2><<<grid, kThreads, 0, stream>>>(args);
  }
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels
