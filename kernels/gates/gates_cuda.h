// Device functions of gates.h on raw pointers. gates.cu and delta_gates.cu define them;
// device_stub.cc does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

// log_decay = max(log sigmoid(z) / temperature, floor), rows of `width` elements.
struct LogSigmoidDecayArgs {
  long long num_rows = 0;
  int width = 0;
  ConstRows z;
  float inverse_temperature = 1;
  float floor = 0;  // 0: none
  // Forward.
  float* log_decay = nullptr;  // dense
  // Backward.
  const float* d_log_decay = nullptr;  // dense
  Rows d_z;
};
int LaunchLogSigmoidDecayForward(const LogSigmoidDecayArgs& args, CUstream_st* stream);
int LaunchLogSigmoidDecayBackward(const LogSigmoidDecayArgs& args, CUstream_st* stream);

// The gates of the delta rules. Columns of z: num_heads logits of the write strength, then as many
// of the decay when there is one:
//   beta = beta_scale sigmoid(z_beta),   log_decay = -exp(A_log) softplus(z_decay + dt_bias).
struct DeltaGatesDeviceArgs {
  long long num_rows = 0;
  int num_heads = 0;
  ConstRows z;
  float beta_scale = 1;
  const float* A_log = nullptr;    // [H]; nullptr: no decay
  const float* dt_bias = nullptr;  // [H]
  // Forward, dense [num_rows, H].
  float* beta = nullptr;
  float* log_decay = nullptr;
  // Backward.
  const float* d_beta = nullptr;       // dense; nullptr: zero
  const float* d_log_decay = nullptr;  // dense; nullptr: zero
  Rows d_z;
  int padding = 0;                // columns of d_z after the gates, which become zeros
  float* partials = nullptr;      // scratch of DeltaGatesPartials(num_rows, H) * 2 * H floats
  float* d_parameters = nullptr;  // [2,H]: gradients of A_log, then of dt_bias
};
constexpr int kMaxGateHeads = 64;
int DeltaGatesPartials(long long num_rows, int num_heads);
int LaunchDeltaGatesForward(const DeltaGatesDeviceArgs& args, CUstream_st* stream);
int LaunchDeltaGatesBackward(const DeltaGatesDeviceArgs& args, CUstream_st* stream);

// y = silu(a) * b, [a, b] = x: rows of 2 * width and width elements, both multiples of eight.
struct SwigluArgs {
  long long num_rows = 0;
  int width = 0;
  ConstRows x;
  Rows y;         // forward
  ConstRows d_y;  // backward
  Rows d_x;
};
int LaunchSwigluForward(const SwigluArgs& args, CUstream_st* stream);
int LaunchSwigluBackward(const SwigluArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
