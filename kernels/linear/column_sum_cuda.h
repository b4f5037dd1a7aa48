// Sums of the columns of a matrix on raw pointers. column_sum.cu defines it; device_stub.cc does in
// builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

struct ColumnSumArgs {
  long long num_rows = 0;
  int width = 0;              // a multiple of 8
  ConstRows x;                // bf16, 16-byte aligned rows
  float* partials = nullptr;  // scratch of ColumnSumPartials(num_rows) * width floats
  float* sum = nullptr;       // [width]
};

int ColumnSumPartials(long long num_rows);

// Queues the work; returns the CUDA error code of the launch.
int LaunchColumnSum(const ColumnSumArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
