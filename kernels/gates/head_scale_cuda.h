// Device functions of head_scale.h on raw pointers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

constexpr bool HeadScaleSupports(long long num_heads, long long head_dim) {
  return num_heads <= 1 << 16 && head_dim >= 8 && head_dim <= 256 &&
         (head_dim & (head_dim - 1)) == 0;
}

// Rows of num_heads heads of head_dim neighbouring elements. Those of x, base and their gradients
// have one dtype and are aligned to 16 bytes.
struct HeadScaleSizes {
  long long num_rows = 0;
  int num_heads = 0;
  int head_dim = 0;
  bool scale_of_rows = false;  // scale [num_rows, num_heads], else [num_heads]; dense
};

struct HeadScaleForward {
  HeadScaleSizes sizes;
  ConstRows x;
  const float* scale = nullptr;
  ConstRows base;  // absent: zero
  Rows y;
};

struct HeadScaleBackward {
  HeadScaleSizes sizes;
  ConstRows x;
  const float* scale = nullptr;
  ConstRows d_y;
  Rows d_x;                   // absent: not wanted
  float* d_scale = nullptr;   // like scale; absent: not wanted
  float* partials = nullptr;  // of a scale of heads: HeadScalePartials(sizes) * num_heads floats
};

long long HeadScalePartials(const HeadScaleSizes& sizes);

// Queue the work; return the CUDA error code of the launch.
int LaunchHeadScaleForward(const HeadScaleForward& args, CUstream_st* stream);
int LaunchHeadScaleBackward(const HeadScaleBackward& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
