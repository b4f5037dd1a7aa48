// Device functions of short_convolution.h on raw pointers. short_convolution.cu defines them;
// device_stub.cc does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/element.h"

struct CUstream_st;

namespace mixerbench::kernels {

struct ShortConvolutionSizes {
  long long batch_size = 0;
  int seq_len = 0;
  int channels = 0;       // a multiple of 8
  int width = 0;          // taps: 2, 3 or 4
  bool silu = false;      // after the convolution
  int norm_channels = 0;  // the first so many are normalised after that, in heads of norm_dim
  int norm_dim = 0;       // 8, 16, ... 128, a power of two; 0: none
  float norm_eps = 0;     // x (sum x^2 + eps)^-1/2
};

struct ShortConvolutionForward {
  ShortConvolutionSizes sizes;
  ConstRows x;                    // [B T, C]
  const float* weight = nullptr;  // [C, width], the last tap meets the current token
  const float* bias = nullptr;    // [C]; nullptr: none
  Rows y;                         // [B T, C]
};

struct ShortConvolutionBackward {
  ShortConvolutionSizes sizes;
  ConstRows x;
  const float* weight = nullptr;
  const float* bias = nullptr;
  ConstRows d_y;
  Rows d_x;
  // Scratch of ShortConvolutionPartials(sizes) * C * (width + 1) floats.
  float* partials = nullptr;
  float* d_weights = nullptr;  // [C * width + C]: gradients of the weight, then of the bias
};

constexpr int kMaxShortConvolutionWidth = 4;   // taps
constexpr int kMaxShortConvolutionNorm = 128;  // channels of a head

constexpr bool ShortConvolutionSupports(long long channels, long long width,
                                        long long norm_channels, long long norm_dim) {
  if (channels < 8 || channels % 8 != 0 || width < 2 || width > kMaxShortConvolutionWidth) {
    return false;
  }
  if (norm_channels == 0) return true;
  return norm_dim >= 8 && norm_dim <= kMaxShortConvolutionNorm &&
         (norm_dim & (norm_dim - 1)) == 0 && norm_channels % norm_dim == 0 &&
         norm_channels <= channels;
}

// Of the backward pass, for its scratch.
int ShortConvolutionPartials(const ShortConvolutionSizes& sizes);

// Queue the work; return the CUDA error code of the launch. x, y and their gradients have one dtype
// and rows aligned to 16 bytes.
int LaunchShortConvolutionForward(const ShortConvolutionForward& args, CUstream_st* stream);
int LaunchShortConvolutionBackward(const ShortConvolutionBackward& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
