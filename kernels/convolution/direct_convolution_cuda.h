// Device function of direct_convolution.h on raw pointers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

struct CUstream_st;

namespace mixerbench::kernels {

// Values of channels that are neighbours in memory, at steps of one or several sequences. Strides
// in elements; a negative one of steps runs backwards from `data`.
struct ConstSeries {
  const float* data = nullptr;
  int length = 0;
  long long step_stride = 0;
  long long sequence_stride = 0;  // 0: the same for all
};

struct Series {
  float* data = nullptr;
  int length = 0;
  long long step_stride = 0;
  long long sequence_stride = 0;
};

// out_o = sum_i input_i taps_{o-i+shift} for every channel of every sequence; taps are zero outside
// their length. A convolution is this sum, and so are its gradients, over series that run
// backwards.
struct LagSumsArgs {
  int num_sequences = 0;
  int num_channels = 0;
  int shift = 0;
  ConstSeries input = {};
  ConstSeries taps = {};
  Series out = {};
  // For sums over sequences too: `out` gets sums of parts, so many sequences each in order, in the
  // place of sequences; `total`, dense in the order of memory, their sum.
  int sequences_per_part = 0;
  float* total = nullptr;
};

constexpr int kLagSumChannels = 32;  // of a block
constexpr int kLagSumOutputs = 128;

// Queues the work; returns the CUDA error code of the launch.
int LaunchLagSums(const LagSumsArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
