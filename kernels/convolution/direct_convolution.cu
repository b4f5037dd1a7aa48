// Sums of lagged products: a warp has 32 channels, a thread sixteen neighbouring outputs of one.
//
// Inputs and taps of a tile travel to shared memory. From one input to the next the sixteen taps
// that meet a thread's outputs move by one place, so that a step loads one tap and one input for
// sixteen products; the taps stay in a ring of registers whose places the compiler knows. Two
// sequences share the taps where these are the same for all.
//
// fp32, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/convolution/direct_convolution_cuda.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/sum_rows.h"

namespace mixerbench::kernels {
namespace {

constexpr int kLanes = kLagSumChannels;
constexpr int kOutputs = 16;  // of a thread, and inputs of a run of its steps
constexpr int kTileOutputs = kLagSumOutputs;
constexpr int kWarps = kTileOutputs / kOutputs;
constexpr int kTileInputs = 128;
constexpr int kTileTaps = kTileInputs + kTileOutputs;  // that meet in a tile, and one more
constexpr int kThreads = kWarps * kLanes;

// What a block works on.
struct Tile {
  int channel;  // of this thread
  int first_output;
  int first_sequence, last_sequence;
  int part;  // or group of sequences
  int lane, warp;

  __device__ Tile(const LagSumsArgs& args, int sequences_per_block)
      : lane(static_cast<int>(threadIdx.x) % kLanes), warp(static_cast<int>(threadIdx.x) / kLanes) {
    const int channel_groups = (args.num_channels + kLanes - 1) / kLanes;
    const int output_tiles = (args.out.length + kTileOutputs - 1) / kTileOutputs;
    int index = static_cast<int>(blockIdx.x);
    channel = index % channel_groups * kLanes + lane;
    index /= channel_groups;
    first_output = index % output_tiles * kTileOutputs;
    part = index / output_tiles;
    first_sequence = part * sequences_per_block;
    last_sequence = min(first_sequence + sequences_per_block, args.num_sequences);
  }
};

// `count` rows of channels from step `first` on to shared memory; zeros where there are none.
template <int kCount>
__device__ inline void FillRows(const ConstSeries& series, int sequence, int first,
                                const Tile& tile, bool exists, float (*rows)[kLanes]) {
  const float* source = series.data + sequence * series.sequence_stride + tile.channel;
#pragma unroll 8
  for (int row = tile.warp; row < kCount; row += kWarps) {
    const int step = first + row;
    rows[row][tile.lane] =
        exists && step >= 0 && step < series.length ? source[step * series.step_stride] : 0;
  }
}

// Adds the products of kOutputs inputs, from row `input` on, with the taps that meet a thread's
// outputs: ring[(r - j) mod kOutputs] meets output r at step j. Row tap[-j] is the first of them.
// kMasked: only of lags >= 0, `lag` being that of output 0 and step 0; a tap of zero would let an
// input that is not finite reach earlier outputs.
template <bool kMasked, int kSequences>
__device__ inline void AddRun(const float (*input)[kTileInputs][kLanes], const float (*tap)[kLanes],
                              int first, int lane, int lag, float (&ring)[kOutputs],
                              float (&sums)[kSequences][kOutputs]) {
#pragma unroll
  for (int j = 0; j < kOutputs; ++j) {
    ring[(kOutputs - j) % kOutputs] = tap[-j][lane];
#pragma unroll
    for (int sequence = 0; sequence < kSequences; ++sequence) {
      const float x = input[sequence][first + j][lane];
#pragma unroll
      for (int r = 0; r < kOutputs; ++r) {
        const float sum = sums[sequence][r] + x * ring[(kOutputs + r - j) % kOutputs];
        sums[sequence][r] = !kMasked || lag + r - j >= 0 ? sum : sums[sequence][r];
      }
    }
  }
}

// kSequences: that are worked on at once, with the same taps. kSumSequences: one after the other,
// into one sum.
template <int kSequences, bool kSumSequences>
__global__ void __launch_bounds__(kThreads) LagSumsKernel(const LagSumsArgs args) {
  extern __shared__ float shared[];
  auto* taps = reinterpret_cast<float(*)[kLanes]>(shared);
  auto* inputs = reinterpret_cast<float(*)[kTileInputs][kLanes]>(shared + kTileTaps * kLanes);
  const Tile tile(args, kSumSequences ? args.sequences_per_part : kSequences);
  const bool is_channel = tile.channel < args.num_channels;
  const int output = tile.first_output + tile.warp * kOutputs;
  const int last_output = min(tile.first_output + kTileOutputs, args.out.length) - 1;
  // The inputs that some tap takes to some output of the block.
  const int first_input = max(0, tile.first_output + args.shift - (args.taps.length - 1));
  const int end_input = min(args.input.length, last_output + args.shift + 1);

  float sums[kSequences][kOutputs] = {};
  for (int sequence = tile.first_sequence; sequence < tile.last_sequence; sequence += kSequences) {
    for (int begin = first_input; begin < end_input; begin += kTileInputs) {
      __syncthreads();
      FillRows<kTileTaps>(args.taps, sequence,
                          tile.first_output - (begin + kTileInputs - 1) + args.shift, tile,
                          is_channel, taps);
#pragma unroll
      for (int s = 0; s < kSequences; ++s) {
        FillRows<kTileInputs>(args.input, sequence + s, begin, tile,
                              is_channel && sequence + s < tile.last_sequence, inputs[s]);
      }
      __syncthreads();
      // Lag of the warp's first output and the tile's first input; runs of inputs that meet taps.
      const int lag = output - begin + args.shift;
      const int runs = (min(end_input - begin, kTileInputs) + kOutputs - 1) / kOutputs;
      const int end_run =
          output <= last_output ? min(runs, (lag + kOutputs - 1) / kOutputs + 1) : 0;
      int run = max(0, (lag - args.taps.length) / kOutputs);
      if (lag + kOutputs - 1 < 0 || run >= end_run) continue;
      // Row of the tap that meets output 0 and the first input of the run.
      const float(*tap)[kLanes] = taps + tile.warp * kOutputs + (kTileInputs - 1) - run * kOutputs;
      float ring[kOutputs];
#pragma unroll
      for (int r = 1; r < kOutputs; ++r) ring[r] = tap[r][tile.lane];
#pragma unroll 1
      for (; run < end_run; ++run, tap -= kOutputs) {
        const int run_lag = lag - run * kOutputs;
        if (run_lag >= kOutputs - 1) {
          AddRun<false>(inputs, tap, run * kOutputs, tile.lane, run_lag, ring, sums);
        } else {
          AddRun<true>(inputs, tap, run * kOutputs, tile.lane, run_lag, ring, sums);
        }
      }
    }
  }
  if (!is_channel) return;
#pragma unroll
  for (int s = 0; s < kSequences; ++s) {
    const int sequence = kSumSequences ? tile.part : tile.first_sequence + s;
    if (!kSumSequences && sequence >= tile.last_sequence) break;
    float* target = args.out.data + sequence * args.out.sequence_stride + tile.channel;
#pragma unroll
    for (int r = 0; r < kOutputs; ++r) {
      if (output + r <= last_output) target[(output + r) * args.out.step_stride] = sums[s][r];
    }
  }
}

template <int kSequences, bool kSumSequences>
int LaunchKernel(const LagSumsArgs& args, int sequences_per_block, CUstream_st* stream) {
  const auto blocks = [](long long items, int per_block) {
    return (items + per_block - 1) / per_block;
  };
  const long long num_blocks = blocks(args.num_channels, kLanes) *
                               blocks(args.out.length, kTileOutputs) *
                               blocks(args.num_sequences, sequences_per_block);
  constexpr std::size_t kSharedBytes =
      (kTileTaps + kSequences * kTileInputs) * kLanes * sizeof(float);
  return device::Launch(LagSumsKernel<kSequences, kSumSequences>, num_blocks, kThreads,
                        kSharedBytes, stream, args);
}

}  // namespace

int LaunchLagSums(const LagSumsArgs& args, CUstream_st* stream) {
  if (args.total == nullptr) return LaunchKernel<2, false>(args, 2, stream);
  const int per_part = args.sequences_per_part;
  if (const int error = LaunchKernel<1, true>(args, per_part, stream); error != 0) return error;
  const float* first = args.out.step_stride > 0
                           ? args.out.data
                           : args.out.data + (args.out.length - 1) * args.out.step_stride;
  return LaunchSumRows(first, (args.num_sequences + per_part - 1) / per_part,
                       args.out.length * args.num_channels, args.total, stream);
}

}  // namespace mixerbench::kernels
