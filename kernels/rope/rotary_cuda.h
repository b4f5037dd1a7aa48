// Device function of rotary.h on raw pointers. rotary.cu defines it; device_stub.cc does in builds
// without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

struct RotaryArgs {
  long long batch_size = 0;
  int seq_len = 0;
  int num_heads = 0;
  int head_dim = 0;
  int rotary_dim = 0;
  double first_position = 0;
  double base = 0;
  bool back = false;  // turns by the opposite angles: the gradient
  ConstRows x;        // [B T, H K], rows aligned to four elements
  Rows y;             // of the dtype of x
};

// A thread turns four channels with four others, or passes four on.
constexpr bool RotarySupports(long long head_dim, long long rotary_dim) {
  return rotary_dim > 0 && rotary_dim % 8 == 0 && (head_dim - rotary_dim) % 4 == 0;
}

// Queues the work; returns the CUDA error code of the launch.
int LaunchRotary(const RotaryArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
