// Device functions of output_norm.h on raw pointers. output_norm.cu defines them; device_stub.cc
// does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

enum class GateActivation { kNone, kSilu, kSigmoid };

// Rows of tokens, each of num_heads heads of head_dim neighbouring elements.
struct OutputNormSizes {
  long long num_tokens = 0;
  int num_heads = 0;
  int head_dim = 0;  // see OutputNormSupportsWidth
  float eps = 0;
  GateActivation activation = GateActivation::kNone;
  bool gate_before_norm = false;
};

struct OutputNormForward {
  OutputNormSizes sizes;
  ConstRows x;
  ConstRows gate;                 // absent without activation
  const float* weight = nullptr;  // [head_dim]
  Rows y;
};

struct OutputNormBackward {
  OutputNormSizes sizes;
  ConstRows x;
  ConstRows gate;
  const float* weight = nullptr;
  ConstRows d_y;
  Rows d_x;                   // absent: not wanted
  Rows d_gate;                // absent: not wanted
  float* partials = nullptr;  // scratch of OutputNormPartials(sizes) * head_dim floats
  float* d_weight = nullptr;  // [head_dim]
};

constexpr bool OutputNormSupportsWidth(long long head_dim) {
  return head_dim >= 8 && head_dim <= 512 && head_dim % 8 == 0;
}

inline constexpr int kOutputNormLog2MaxHeads = 30;  // of all tokens

constexpr bool OutputNormSupportsCount(long long num_tokens, long long num_heads) {
  return num_tokens <= (1LL << kOutputNormLog2MaxHeads) / num_heads;
}

int OutputNormPartials(const OutputNormSizes& sizes);

// Queue the work; return the CUDA error code of the launch. x, gate, y and their gradients have one
// dtype, every head is 16-byte aligned.
int LaunchOutputNormForward(const OutputNormForward& args, CUstream_st* stream);
int LaunchOutputNormBackward(const OutputNormBackward& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
