// Gradients of linear_cross_entropy.cu, in one kernel.
//
// Pairs of blocks scan a tile of words along one half of the rows each (softmax_scan.cuh), whose
// softmax is known by now, and sum the weight's gradient. Three warps that the scan leaves idle
// merge the parts of the rows' mean weights less the weight of the target: the gradient of the
// hidden states. Products of bf16, everything else in fp32 and in a fixed order: deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <cuda_bf16.h>

#include "kernels/device/fast_math.cuh"
#include "kernels/loss/linear_cross_entropy_cuda.h"
#include "kernels/loss/softmax_scan.cuh"
#include "kernels/loss/softmax_scan_launch.cuh"

namespace mixerbench::kernels {
namespace {

constexpr int kProductRegisters = 232;
constexpr int kCopyRegisters = 40;
constexpr int kPair = 2;  // blocks of a cluster
constexpr unsigned kAllLanes = 0xffffffffu;

// Softmax less one at the target; resident are words, scanned rows whose softmax is known.
class ColumnSoftmax {
 public:
  __device__ explicit ColumnSoftmax(int first_word) : word_(first_word + lane_.row) {}

  template <bool kFirst, typename Again>
  __device__ bool Weigh(float (&scores)[kScores], int, const ScanRows& rows, const Again&) const {
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) {
      const float2 total = *reinterpret_cast<const float2*>(rows.log_totals + 8 * j + lane_.column);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float* pair = scores + 4 * j + 2 * h;
        pair[0] = Exp2(fmaf(pair[0], kLog2E, -total.x));
        pair[1] = Exp2(fmaf(pair[1], kLog2E, -total.y));
      }
    }
    // The few targets among the 16 words of this warp: lane l looks at rows 4 l..4 l + 3.
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int4 four = *reinterpret_cast<const int4*>(rows.targets + 4 * lane);
    const int first = word_ - lane / 4;
    const auto is_here = [first](int target) { return static_cast<unsigned>(target - first) < 16; };
    const unsigned here = __ballot_sync(
        kAllLanes, is_here(four.x) || is_here(four.y) || is_here(four.z) || is_here(four.w));
    if (here == 0) return false;
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) {
      if ((here >> 2 * j & 3) == 0) continue;
      const int2 target = *reinterpret_cast<const int2*>(rows.targets + 8 * j + lane_.column);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        scores[4 * j + 2 * h] -= target.x == word_ + 8 * h ? 1 : 0;
        scores[4 * j + 2 * h + 1] -= target.y == word_ + 8 * h ? 1 : 0;
      }
    }
    return false;
  }

  template <int kSize>
  __device__ void Rescale(float (&)[kSize]) const {}

 private:
  ScanLane lane_;
  int word_;  // of accumulators 4 j, 4 j + 1
};

// The gradient of the hidden states out of the parts' sums, by `num_threads` threads of which this
// is `thread`: four columns of a row at a time.
__device__ void CombineParts(const LinearCrossEntropyArgs& args, const LinearCrossEntropyCut& cut,
                             int thread, int num_threads) {
  const int threads_of_row = args.sizes.width / 4;
  const float factor = *args.d_loss * *args.inverse_count;
  for (long long index = thread; index < args.sizes.num_rows * threads_of_row;
       index += num_threads) {
    const long long row = index / threads_of_row;
    const int column = static_cast<int>(index % threads_of_row) * 4;
    const int target = args.row_targets[row];
    float4 sum = {0, 0, 0, 0};
    if (target >= 0) {
      const float log_total = args.log_totals[row];
#pragma unroll 4
      for (int part = 0; part < cut.num_parts; ++part) {
        const long long at = part * cut.padded_rows + row;
        const float weight = Exp2(args.part_shifts[at] - log_total);
        const float4 x =
            *reinterpret_cast<const float4*>(args.part_sums + at * args.sizes.width + column);
        sum.x = fmaf(weight, x.x, sum.x);
        sum.y = fmaf(weight, x.y, sum.y);
        sum.z = fmaf(weight, x.z, sum.z);
        sum.w = fmaf(weight, x.w, sum.w);
      }
      const auto* word =
          static_cast<const __nv_bfloat16*>(args.weight) + target * args.weight_stride + column;
      sum.x = factor * (sum.x - static_cast<float>(word[0]));
      sum.y = factor * (sum.y - static_cast<float>(word[1]));
      sum.z = factor * (sum.z - static_cast<float>(word[2]));
      sum.w = factor * (sum.w - static_cast<float>(word[3]));
    }
    auto* to = static_cast<__nv_bfloat16*>(args.d_hidden) + row * args.sizes.width + column;
    *reinterpret_cast<uint2*>(to) = {device::PackBf16(sum.x, sum.y),
                                     device::PackBf16(sum.z, sum.w)};
  }
}

// Pair of blocks: 128 words, one half of the row tiles each. Each block finishes the words of one
// warpgroup, with what the same warpgroup of the other block has summed.
template <int kWidth>
__global__ void __launch_bounds__(kScanThreads, 1)
    GradientKernel(const __grid_constant__ LinearCrossEntropyArgs args,
                   const __grid_constant__ LinearCrossEntropyCut cut,
                   const __grid_constant__ HeadMaps maps) {
  if (!kForHopper) return;
  ScanMemory<kWidth>& memory = SharedScanMemory<kWidth>();
  const int half = static_cast<int>(blockIdx.x) % kPair;
  const int first_word = static_cast<int>(blockIdx.x) / kPair * kScanTile;
  const int row_tiles = static_cast<int>(HeadTiles(args.sizes.num_rows));
  const int first_tile = row_tiles * half / kPair;
  const int num_tiles = row_tiles * (half + 1) / kPair - first_tile;
  const ScanTiles tiles = {.resident = maps.weight,
                           .resident_row = first_word,
                           .scanned = maps.hidden,
                           .first_tile = first_tile,
                           .num_tiles = num_tiles,
                           .log_totals = args.log_totals,
                           .targets = args.row_targets};

  if (threadIdx.x == kProductThreads) {
    InitScan(memory);
    CopyTiles(memory, tiles, 0, min(num_tiles, 1));
  }
  __syncthreads();
  __syncwarp();
  ArriveAtCluster();
  if (threadIdx.x >= kProductThreads) {
    warpgroup::GiveRegisters<kCopyRegisters>();
    if (threadIdx.x == kProductThreads) {
      CopyTiles(memory, tiles, 1, num_tiles);
    } else if (threadIdx.x >= kProductThreads + 32) {
      constexpr int kThreads = kWarpgroup - 32;
      CombineParts(args, cut,
                   static_cast<int>(blockIdx.x * kThreads + threadIdx.x) - kProductThreads - 32,
                   static_cast<int>(gridDim.x) * kThreads);
    }
    __syncwarp();
    AwaitCluster();
    SyncCluster();
    return;
  }
  warpgroup::TakeRegisters<kProductRegisters>();
  const ScanLane lane;
  ColumnSoftmax softmax(first_word);
  float sums[kWidth / 2];
  Scan<kWidth>(memory, num_tiles, softmax, sums);
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  AwaitCluster();  // the other block has begun
  if (lane.group != half) {
    float4* theirs = OfBlock(memory.exchange, static_cast<unsigned>(1 - half)) + thread;
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j) {
      theirs[j * kWarpgroup] = {sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]};
    }
  }
  SyncCluster();
  if (lane.group != half) return;
#pragma unroll
  for (int j = 0; j < kWidth / 8; ++j) {
    const float4 other = memory.exchange[j * kWarpgroup + thread];
    sums[4 * j] += other.x;
    sums[4 * j + 1] += other.y;
    sums[4 * j + 2] += other.z;
    sums[4 * j + 3] += other.w;
  }
  const float factor = *args.d_loss * *args.inverse_count;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int word = first_word + lane.row + 8 * h;
    if (word >= args.sizes.vocab_size) continue;
    float* to = args.d_weight + static_cast<long long>(word) * kWidth + lane.column;
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j) {
      const int i = 4 * j + 2 * h;
      *reinterpret_cast<float2*>(to + 8 * j) = {factor * sums[i], factor * sums[i + 1]};
    }
  }
}

}  // namespace

int LaunchLinearCrossEntropyBackward(const LinearCrossEntropyArgs& args, CUstream_st* stream) {
  const int pairs = static_cast<int>(HeadTiles(args.sizes.vocab_size));
  return args.sizes.width == 64 ? LaunchScan<64>(GradientKernel<64>, pairs, kPair, args, stream)
                                : LaunchScan<128>(GradientKernel<128>, pairs, kPair, args, stream);
}

}  // namespace mixerbench::kernels
