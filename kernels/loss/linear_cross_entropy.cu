// Forward pass of the softmax cross-entropy of hidden states times the head's weight, without
// logits in memory.
//
// The blocks are tiles of rows times parts of the vocabulary. Each scans its part
// (softmax_scan.cuh) with a running softmax of its rows; what it sums are the mean weights of words
// under the softmax, which the gradient of a row is made of, so that the backward pass need not
// scan the vocabulary again. A cluster of eight blocks then merges the parts of each row and forms
// the loss. Products of bf16, statistics and sums in fp32, all in a fixed order: deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>

#include <cuda_bf16.h>

#include "kernels/device/fast_math.cuh"
#include "kernels/device/hopper_launch.cuh"
#include "kernels/loss/linear_cross_entropy_cuda.h"
#include "kernels/loss/softmax_scan.cuh"
#include "kernels/loss/softmax_scan_launch.cuh"

namespace mixerbench::kernels {
namespace {

constexpr int kProductRegisters = 232;
constexpr int kCopyRegisters = 40;
constexpr int kStatisticsThreads = 512;
constexpr int kStatisticsBlocks = 8;
constexpr float kLn2 = 0.6931471805599453f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr unsigned kAllLanes = 0xffffffffu;

// Exponentials are relative to a shift of their row, the maximum of its first tile, which is raised
// only when their sum exceeds this: that hardly ever happens, floats lose nothing by it up to
// 2^127, and looking at the sum costs a quarter less than looking for the maximum of every tile.
constexpr float kMostTotal = 0x1p64f;

// The running softmax of resident rows; scanned are words.
class RowSoftmax {
 public:
  __device__ RowSoftmax(const LinearCrossEntropyArgs& args, int first_row, int first_tile)
      : args_(args), row_(first_row + lane_.row), first_word_(first_tile * kScanTile) {}

  template <bool kFirst, typename Again>
  __device__ bool Weigh(float (&scores)[kScores], int tile, const ScanRows&, const Again& again) {
    MaskEnd(scores, tile);
    if (kFirst) Raise(scores);
    const float before[2] = {total_[0], total_[1]};
    AddExponentials(scores);
    if (kFirst) return false;
    const bool exceeds = total_[0] > kMostTotal || total_[1] > kMostTotal;
    if (__any_sync(kAllLanes, exceeds) == 0) return false;
    again();
    MaskEnd(scores, tile);
    total_[0] = before[0];
    total_[1] = before[1];
    Raise(scores);
    AddExponentials(scores);
    return true;
  }

  template <int kSize>
  __device__ void Rescale(float (&sums)[kSize]) const {
#pragma unroll
    for (int i = 0; i < kSize; ++i) sums[i] *= factor_[i / 2 % 2];
  }

  template <int kSize>
  __device__ void Store(const float (&sums)[kSize], int part, long long padded_rows) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const long long index = part * padded_rows + row_ + 8 * h;
      float total = total_[h];
      total += __shfl_xor_sync(kAllLanes, total, 1);
      total += __shfl_xor_sync(kAllLanes, total, 2);
      if (lane_.column == 0) {
        args_.part_shifts[index] = shift_[h];
        args_.part_totals[index] = total;
      }
      float* to = args_.part_sums + index * args_.sizes.width + lane_.column;
#pragma unroll
      for (int j = 0; j < kSize / 4; ++j) {
        *reinterpret_cast<float2*>(to + 8 * j) = {sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]};
      }
    }
  }

 private:
  // Words beyond the last have no weight.
  __device__ void MaskEnd(float (&scores)[kScores], int tile) const {
    const int num_words = args_.sizes.vocab_size - first_word_ - tile * kScanTile;
    if (num_words >= kScanTile) return;
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      if (lane_.column + i / 4 * 8 + i % 2 >= num_words) scores[i] = -kInfinity;
    }
  }

  // Scores become their exponentials.
  __device__ void AddExponentials(float (&scores)[kScores]) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const int h = i / 2 % 2;
      scores[i] = Exp2(fmaf(scores[i], kLog2E, -shift_[h]));
      total_[h] += scores[i];
    }
  }

  // The shift to the maximum so far.
  __device__ void Raise(const float (&scores)[kScores]) {
    float max[2] = {-kInfinity, -kInfinity};
#pragma unroll
    for (int i = 0; i < kScores; ++i) max[i / 2 % 2] = fmaxf(max[i / 2 % 2], scores[i]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float high = fmaxf(max[h], __shfl_xor_sync(kAllLanes, max[h], 1));
      high = fmaxf(high, __shfl_xor_sync(kAllLanes, high, 2));
      const float shift = fmaxf(shift_[h], high * kLog2E);
      factor_[h] = Exp2(shift_[h] - shift);
      total_[h] *= factor_[h];
      shift_[h] = shift;
    }
  }

  const LinearCrossEntropyArgs& args_;
  ScanLane lane_;
  int row_;  // of accumulators 4 j, 4 j + 1
  int first_word_;
  float shift_[2] = {-kInfinity, -kInfinity};
  float total_[2] = {0, 0};
  float factor_[2];
};

template <typename T>
__device__ void SumWarp(T& x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
}

// The logits of the targets of rows first_row, first_row + step, ... below last_row, by a warp.
__device__ void StoreTargetLogits(const LinearCrossEntropyArgs& args, int first_row, int last_row,
                                  int step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = first_row; row < last_row; row += step) {
    const std::int64_t target = args.targets[row];
    if (target < 0 || target >= args.sizes.vocab_size) continue;
    const auto* x = static_cast<const __nv_bfloat16*>(args.hidden) + row * args.hidden_stride;
    const auto* word = static_cast<const __nv_bfloat16*>(args.weight) + target * args.weight_stride;
    float sum = 0;
    for (int column = 2 * lane; column < args.sizes.width; column += 64) {
      const float2 a = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(x + column));
      const float2 b = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(word + column));
      sum = fmaf(a.x, b.x, fmaf(a.y, b.y, sum));
    }
    SumWarp(sum);
    if (lane == 0) args.target_logits[row] = sum;
  }
}

// Block: 128 rows and one part of the vocabulary.
template <int kWidth>
__global__ void __launch_bounds__(kScanThreads, 1)
    ForwardKernel(const __grid_constant__ LinearCrossEntropyArgs args,
                  const __grid_constant__ LinearCrossEntropyCut cut,
                  const __grid_constant__ HeadMaps maps) {
  if (!kForHopper) return;
  ScanMemory<kWidth>& memory = SharedScanMemory<kWidth>();
  const int row_tiles = static_cast<int>(HeadTiles(args.sizes.num_rows));
  const int row_tile = static_cast<int>(blockIdx.x) % row_tiles;
  const int part = static_cast<int>(blockIdx.x) / row_tiles;
  const int word_tiles = static_cast<int>(HeadTiles(args.sizes.vocab_size));
  const int first_tile = word_tiles * part / cut.num_parts;
  const int num_tiles = word_tiles * (part + 1) / cut.num_parts - first_tile;
  const ScanTiles tiles = {.resident = maps.hidden,
                           .resident_row = row_tile * kScanTile,
                           .scanned = maps.weight,
                           .first_tile = first_tile,
                           .num_tiles = num_tiles};
  if (threadIdx.x == kProductThreads) {
    InitScan(memory);
    CopyTiles(memory, tiles, 0, 1);
  }
  __syncthreads();
  if (threadIdx.x >= kProductThreads) {
    warpgroup::GiveRegisters<kCopyRegisters>();
    const int warp = (static_cast<int>(threadIdx.x) - kProductThreads) / 32;
    if (threadIdx.x == kProductThreads) {
      CopyTiles(memory, tiles, 1, num_tiles);
    } else if (warp > 0) {  // the parts share the rows
      const auto last = std::min<long long>((row_tile + 1LL) * kScanTile, args.sizes.num_rows);
      StoreTargetLogits(args, row_tile * kScanTile + part + cut.num_parts * (warp - 1),
                        static_cast<int>(last), cut.num_parts * (kWarpgroup / 32 - 1));
    }
    return;
  }
  warpgroup::TakeRegisters<kProductRegisters>();
  RowSoftmax softmax(args, row_tile * kScanTile, first_tile);
  float sums[kWidth / 2];
  Scan<kWidth>(memory, num_tiles, softmax, sums);
  softmax.Store(sums, part, row_tiles * static_cast<long long>(kScanTile));
}

// One cluster: the softmax of every row out of those of its parts, the loss, and how many rows
// count.
__global__ void __launch_bounds__(kStatisticsThreads)
    StatisticsKernel(const __grid_constant__ LinearCrossEntropyArgs args,
                     const __grid_constant__ LinearCrossEntropyCut cut) {
  if (!kForHopper) return;
  ArriveAtCluster();
  constexpr int kWarps = kStatisticsThreads / 32;
  __shared__ float sums[kWarps];
  __shared__ int counts[kWarps];
  __shared__ float block_sums[kStatisticsBlocks];  // of block 0: what the others send
  __shared__ int block_counts[kStatisticsBlocks];
  float sum = 0;
  int count = 0;
  for (long long row = blockIdx.x * kStatisticsThreads + threadIdx.x; row < cut.padded_rows;
       row += kStatisticsBlocks * kStatisticsThreads) {
    const bool exists = row < args.sizes.num_rows;
    const std::int64_t target = exists ? args.targets[row] : std::int64_t{-1};
    const float target_logit = args.target_logits[row];  // means nothing unless the row counts
    float shifts[kMaxVocabularyParts];
    float totals[kMaxVocabularyParts];
#pragma unroll
    for (int part = 0; part < kMaxVocabularyParts; ++part) {
      const long long at = std::min(part, cut.num_parts - 1) * cut.padded_rows + row;
      shifts[part] = args.part_shifts[at];
      totals[part] = part < cut.num_parts ? args.part_totals[at] : 0;
    }
    if (target >= args.sizes.vocab_size) __trap();
    float shift = shifts[0];
    float total = 0;
#pragma unroll
    for (int part = 1; part < kMaxVocabularyParts; ++part) shift = fmaxf(shift, shifts[part]);
#pragma unroll
    for (int part = 0; part < kMaxVocabularyParts; ++part) {
      total += totals[part] * Exp2(shifts[part] - shift);
    }
    const float log_total = log2f(total);
    const bool counts_row = target >= 0;
    args.log_totals[row] = counts_row ? shift + log_total : kInfinity;
    args.row_targets[row] = counts_row ? static_cast<int>(target) : -1;
    if (counts_row) {
      sum += kLn2 * (log_total - fmaf(target_logit, kLog2E, -shift));
      ++count;
    }
  }
  SumWarp(sum);
  SumWarp(count);
  if (threadIdx.x % 32 == 0) {
    sums[threadIdx.x / 32] = sum;
    counts[threadIdx.x / 32] = count;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < kWarps ? sums[threadIdx.x] : 0;
    count = threadIdx.x < kWarps ? counts[threadIdx.x] : 0;
    SumWarp(sum);
    SumWarp(count);
  }
  __syncwarp();
  AwaitCluster();  // block 0 has begun
  if (threadIdx.x == 0) {
    *OfBlock(block_sums + blockIdx.x, 0) = sum;
    *OfBlock(block_counts + blockIdx.x, 0) = count;
  }
  SyncCluster();
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  sum = 0;
  count = 0;
  for (int block = 0; block < kStatisticsBlocks; ++block) {
    sum += block_sums[block];
    count += block_counts[block];
  }
  *args.loss = sum / static_cast<float>(count);
  *args.inverse_count = count > 0 ? 1 / static_cast<float>(count) : 0;
}

}  // namespace

int LaunchLinearCrossEntropyForward(const LinearCrossEntropyArgs& args, CUstream_st* stream) {
  const LinearCrossEntropyCut cut = CutLinearCrossEntropy(args.sizes);
  const int blocks = static_cast<int>(HeadTiles(args.sizes.num_rows)) * cut.num_parts;
  const int status = args.sizes.width == 64
                         ? LaunchScan<64>(ForwardKernel<64>, blocks, 1, args, stream)
                         : LaunchScan<128>(ForwardKernel<128>, blocks, 1, args, stream);
  if (status != cudaSuccess) return status;
  return LaunchClusters(StatisticsKernel, 1, kStatisticsBlocks, kStatisticsThreads,
                        /*shared_bytes=*/0, stream, args, cut);
}

}  // namespace mixerbench::kernels
