// Device function of top_k.h on raw pointers. top_k.cu defines it; device_stub.cc does in builds
// without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

struct CUstream_st;

namespace mixerbench::kernels {

constexpr int kMaxTopKWidth = 1024;  // a block keeps its rows in shared memory

struct TopKArgs {
  const float* x = nullptr;        // [num_rows, width], dense
  std::int64_t* places = nullptr;  // [num_rows, k]
  long long num_rows = 0;
  int width = 0;  // at most kMaxTopKWidth
  int k = 0;      // 1 to width
};

// Queues the work; returns the CUDA error code of the launch.
int LaunchTopK(const TopKArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
