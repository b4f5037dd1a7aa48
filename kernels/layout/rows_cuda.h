// Device functions of rows.h and copy_rows.h on raw pointers. rows.cu defines them; device_stub.cc
// does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

// Pointers, strides (in bytes) and row_bytes are multiples of 8; of 16 it is faster.
struct CopyRowsArgs {
  const void* source = nullptr;  // nullptr: zeros
  long long source_stride = 0;
  long long num_source_rows = 0;
  void* target = nullptr;
  long long target_stride = 0;
  long long num_rows = 0;  // of the target
  long long row_bytes = 0;
  const std::int64_t* rows = nullptr;  // [num_rows]; nullptr: 0, 1, 2, ...
};

// target[i] = source[rows[i]], zeros where rows[i] is no row of the source. Queues the work;
// returns the CUDA error code of the launch.
int LaunchCopyRows(const CopyRowsArgs& args, CUstream_st* stream);

// bf16, rows aligned to 16 bytes, a width that is a multiple of 8.
struct AddRowsArgs {
  ConstRows source;
  Rows target;
  long long num_rows = 0;  // of the source
  long long width = 0;
  const std::int64_t* rows = nullptr;     // [num_rows], of the target
  const std::int64_t* inverse = nullptr;  // the row of the source that each of the target gets
};

// target[rows[i]] += source[i] where inverse[rows[i]] == i: no row is added to twice. Queues the
// work; returns the CUDA error code of the launch.
int LaunchAddRows(const AddRowsArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
