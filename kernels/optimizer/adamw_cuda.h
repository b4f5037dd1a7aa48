// Device functions of adamw.h on raw pointers. adamw.cu defines them; device_stub.cc does in builds
// without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

struct CUstream_st;

namespace mixerbench::kernels {

struct AdamWTensorArgs {
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
  void* narrow = nullptr;  // bf16 copy of the parameter; nullptr: none
  long long size = 0;
  float weight_decay = 0;
  float rate_scale = 1;
};

// The table travels as a kernel argument, so a step needs no copy to the device.
constexpr int kMaxAdamWTensors = 48;

struct AdamWArgs {
  AdamWTensorArgs tensors[kMaxAdamWTensors];
  int num_tensors = 0;
  const float* learning_rate = nullptr;
  const float* step = nullptr;  // counts from 1
  double beta1 = 0;
  double beta2 = 0;
  float eps = 0;
  const float* gradient_scale = nullptr;  // nullptr: 1
};

// Partial sums of squares that LaunchSumOfSquares leaves for these tensors.
int SumOfSquaresPartials(const AdamWArgs& args);

// Queue the work; return the CUDA error code of the launch.
int LaunchAdamW(const AdamWArgs& args, CUstream_st* stream);
int LaunchSumOfSquares(const AdamWArgs& args, float* partials, CUstream_st* stream);
// *gradient_scale = min(1, max_norm / (sqrt(sum of the partials) + 1e-6)).
int LaunchClipScale(const float* partials, int num_partials, float max_norm, float* gradient_scale,
                    CUstream_st* stream);

}  // namespace mixerbench::kernels
