// Device functions of rows.h on raw pointers. rows.cu defines them; device_stub.cc does in builds
// without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

struct CUstream_st;

namespace mixerbench::kernels::fused {

struct GatherRowsArgs {
  const void* source = nullptr;  // [num_source_rows], contiguous, 16-byte aligned
  long long num_source_rows = 0;
  void* target = nullptr;  // [num_rows], likewise
  long long num_rows = 0;
  long long row_bytes = 0;             // a multiple of 16
  const std::int64_t* rows = nullptr;  // [num_rows]
};

// target[i] = source[rows[i]], zeros where rows[i] is no row of the source. Queues the work;
// returns the CUDA error code of the launch.
int LaunchGatherRows(const GatherRowsArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels::fused
