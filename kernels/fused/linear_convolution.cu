// A linear layer and the short convolution of its first columns: tiles of the product stay in
// shared memory until other warps of the block have stored and convolved them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/fused/hopper_launch.cuh"
#include "kernels/fused/linear_convolution_device.h"
#include "kernels/fused/linear_forward.cuh"
#include "kernels/fused/short_convolution.cuh"

namespace mixerbench::kernels::fused {
namespace {

using namespace linear_forward;
using short_convolution::Activate;
using short_convolution::kTaps;
using short_convolution::kTogether;
using short_convolution::kUnit;
using short_convolution::StoreIf;
using short_convolution::Window;
using Taps = short_convolution::Taps</*kBias=*/false>;

constexpr int kGroups = 2;  // warpgroups that multiply
constexpr int kProductThreads = kGroups * kWarpgroup;
constexpr int kConvolvingThreads = kConvolvingWarps * 32;
constexpr int kBlockThreads = kProductThreads + kConvolvingThreads;
constexpr int kPanelLanes = kPanelWidth / kVector;
constexpr int kTokens = kTokensPerConvolvingThread;
static_assert(32 / kPanelLanes * kTokens == kTile);

struct LinearConvolutionMaps {
  CUtensorMap x;
  CUtensorMap weight;
  CUtensorMap projected;
};

// What a block keeps in shared memory, as CutLinearConvolution counts it.
template <int kIn>
struct Memory {
  std::uint8_t* weight;       // [num_panels] tiles
  std::uint8_t* stages;       // [num_stages] tiles of x
  std::uint8_t* results;      // [num_convolved] panels
  float* bias;                // [num_panels, kTile], zeros without one
  std::uint64_t* has_weight;  // [num_panels]
  std::uint64_t* full;        // [num_stages]
  std::uint64_t* empty;
  std::uint64_t* formed;  // [num_convolved]
  std::uint64_t* free;

  __device__ Memory(std::uint8_t* shared, const LinearConvolutionCut& cut)
      : weight(shared),
        stages(weight + cut.num_panels * kTileBytes<kIn>),
        results(stages + cut.num_stages * kTileBytes<kIn>),
        bias(reinterpret_cast<float*>(results + cut.num_convolved * kPanelBytes)),
        has_weight(reinterpret_cast<std::uint64_t*>(bias + cut.num_panels * kTile)),
        full(has_weight + cut.num_panels),
        empty(full + cut.num_stages),
        formed(empty + cut.num_stages),
        free(formed + cut.num_convolved) {}
};

// Neighbouring tiles of a block, an equal number for each: the tokens before a tile are those of
// the tile before. A block that begins within a sequence forms that tile for its last tokens alone.
struct Work {
  int first;
  int count;
  bool repeats_first;  // the first tile is another block's

  __device__ Work(long long num_rows, int seq_len) {
    const int tiles = static_cast<int>((num_rows + kTile - 1) / kTile);
    const int per_block = (tiles + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
    const int begin = min(static_cast<int>(blockIdx.x) * per_block, tiles);
    const int end = min(begin + per_block, tiles);
    repeats_first = begin < end && begin * kTile % seq_len != 0;
    first = begin - repeats_first;
    count = end - first;
  }
  __device__ int row(int i) const { return (first + i) * kTile; }
  __device__ bool is_own(int i) const { return i > 0 || !repeats_first; }
};

// A warp's 16 rows of a 64 x 64 product straight to a matrix of that many rows and columns, which
// begin at its data, less what is outside.
__device__ void StoreProduct(const Rows& matrix, int num_rows, int num_columns,
                             const float (&sums)[32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = lane / 4;
  auto* target = static_cast<__nv_bfloat16*>(matrix.data) + row * matrix.stride + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (8 * j >= num_columns) break;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (row + 8 * h < num_rows) {
        *reinterpret_cast<__nv_bfloat162*>(target + 8 * h * matrix.stride + 8 * j) =
            __floats2bfloat162_rn(sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]);
      }
    }
  }
}

// The part of a warpgroup that multiplies: every other panel of each tile. Results that are not
// convolved it stores itself. Its first thread also copies what both groups read.
template <int kIn>
__device__ void FormResults(const Memory<kIn>& memory, const LinearConvolutionArgs& args,
                            const LinearConvolutionCut& cut, const Work& work,
                            const LinearConvolutionMaps& maps) {
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  const int first_row = static_cast<int>(threadIdx.x) % kWarpgroup / 32 * 16;  // of the warp
  const auto copy_x = [&](int i, int stage) {
    CopyTile<kIn>(memory.stages + stage * kTileBytes<kIn>, maps.x, work.row(i),
                  &memory.full[stage]);
  };
  if (threadIdx.x == 0) {
    copy_x(0, 0);
    for (int panel = 0; panel < cut.num_panels; ++panel) {
      CopyTile<kIn>(memory.weight + panel * kTileBytes<kIn>, maps.weight, panel * kTile,
                    &memory.has_weight[panel]);
    }
    for (int i = 1; i < min(work.count, cut.num_stages); ++i) copy_x(i, i);
  }
  __syncwarp();
  cuda::RingCursor tile;
  for (int i = 0; i < work.count; ++i) {
    WaitForPhase(&memory.full[tile.slot], tile.parity);
    RowFragments<kIn> rows(memory.stages + tile.slot * kTileBytes<kIn>, first_row);
    for (int panel = group; panel < cut.num_panels; panel += kGroups) {
      if (i == 0) WaitForPhase(&memory.has_weight[panel], 0);
      float sums[32];
      FormPanel(sums, rows, memory.weight + panel * kTileBytes<kIn>, memory.bias + panel * kTile);
      if (panel == group) {
        // A product has used the fragments, so they have arrived: stores that fill the queue may
        // hold them up for long.
        Arrive(&memory.empty[tile.slot]);
        if (threadIdx.x == 0 && i + cut.num_stages < work.count) {
          WaitForPhase(&memory.empty[tile.slot], tile.parity);
          copy_x(i + cut.num_stages, tile.slot);
        }
        __syncwarp();
      }
      if (panel < cut.num_convolved) {
        WaitForPhase(&memory.free[panel], (i & 1) ^ 1);
        StorePanel(memory.results + panel * kPanelBytes, first_row, sums);
        warpgroup::PublishToProducts();
        Arrive(&memory.formed[panel]);
      } else if (work.is_own(i)) {
        const LinearForwardSizes& sizes = args.sizes.product;
        const long long row = work.row(i) + first_row;
        auto* corner = static_cast<__nv_bfloat16*>(args.projected.data) +
                       row * args.projected.stride + panel * kTile;
        StoreProduct({corner, args.projected.element, args.projected.stride},
                     static_cast<int>(sizes.num_rows - row), sizes.out - panel * kTile, sums);
      }
    }
    rows.Pin();
    tile.Advance(1, cut.num_stages);
  }
}

// Eight columns of a panel of results, which a thread reads in rows from its first on.
struct PanelColumn {
  const std::uint8_t* panel;
  int chunk;

  __device__ Packed<__nv_bfloat16> Load(int row) const {
    return {*reinterpret_cast<const uint4*>(panel + ChunkOffset(row, chunk, /*panel_bytes=*/0))};
  }
};

// Eight columns, and every fourth part of a tile's tokens: what a thread convolves.
class Convolver {
 public:
  // `panel` of those that are convolved.
  __device__ Convolver(const LinearConvolutionArgs& args, int panel)
      : sizes_(args.sizes.convolution),
        chunk_(static_cast<int>(threadIdx.x) % kPanelLanes),
        first_(static_cast<int>(threadIdx.x) % 32 / kPanelLanes * kTokens),
        channel_(panel * kPanelWidth + chunk_ * kVector),
        taps_(sizes_, channel_, args.taps, 1 / kUnit<true>),
        target_(static_cast<__nv_bfloat16*>(args.convolved.data) + channel_),
        stride_(args.convolved.stride) {}

  // Convolves a panel of results whose first row is `row`. Between two calls: KeepLast.
  template <bool kNorm>
  __device__ void Convolve(const std::uint8_t* panel, int row) {
    const PanelColumn x{panel, chunk_};
    row += first_;
    const bool begins = row % sizes_.seq_len == 0;
    Window window{};
#pragma unroll
    for (int m = 1; m < kTaps; ++m) {
      Packed<__nv_bfloat16> before = last_[m - 1];
      if (first_ > 0) before = x.Load(first_ - kTaps + m);
      if (begins) before = {};
      window.Push(before.Unpack());
    }
    const bool exists = row < sizes_.batch_size * sizes_.seq_len;  // tokens come by the 16
    __nv_bfloat16* target = target_ + row * stride_;
#pragma unroll 1
    for (int t = 0; t < kTokens; t += kTogether) {
      Vector y[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        window.Push(x.Load(first_ + t + j).Unpack());
        y[j] = window.Convolve(taps_);
      }
      Activate<true, kNorm, kPanelLanes>(y, channel_ < sizes_.norm_channels,
                                         sizes_.norm_dim / kVector, sizes_.norm_eps);
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        StoreIf(exists, target, y[j]);
        target += stride_;
      }
    }
  }

  // What the panel leaves for the next one.
  __device__ void KeepLast(const std::uint8_t* panel) {
#pragma unroll
    for (int m = 1; m < kTaps; ++m) {
      last_[m - 1] = PanelColumn{panel, chunk_}.Load(kTile - kTaps + m);
    }
  }

 private:
  const ShortConvolutionSizes& sizes_;
  const int chunk_;
  const int first_;  // token of a tile
  const int channel_;
  const Taps taps_;
  __nv_bfloat16* const target_;
  const long long stride_;
  Packed<__nv_bfloat16> last_[kTaps - 1] = {};  // of the tile before
};

// The part of a convolving warp: stores the results of its panel and, before it gives their place
// back, convolves them.
template <bool kNorm, int kIn>
__device__ void ConvolveResults(const Memory<kIn>& memory, const LinearConvolutionArgs& args,
                                const Work& work, const LinearConvolutionMaps& maps, int panel) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint8_t* results = memory.results + panel * kPanelBytes;
  Convolver convolver(args, panel);
  for (int i = 0; i < work.count; ++i) {
    WaitForPhase(&memory.formed[panel], i & 1);
    if (work.is_own(i)) {
      if (lane == 0) StorePanelToMatrix(maps.projected, work.row(i), panel * kTile, results);
      __syncwarp();
      convolver.Convolve<kNorm>(results, work.row(i));
    }
    convolver.KeepLast(results);
    if (lane == 0) cuda::WaitForWrites<0>();
    __syncwarp();
    Arrive(&memory.free[panel]);
  }
}

// A block owns neighbouring tiles of 64 rows and all columns. Two warpgroups form panels of 64
// columns in turn; each of eight warps stores and convolves one panel of every tile, in which a
// thread has eight columns and 16 tokens in a row. Shared memory as in Memory, panels at multiples
// of 1024 bytes. Sums begin with the bias, fp32; no sum is shared between warps but that of a head,
// by shuffles: deterministic.
template <int kIn>
__global__ void __launch_bounds__(kBlockThreads, 1)
    LinearConvolutionKernel(const __grid_constant__ LinearConvolutionArgs args,
                            const __grid_constant__ LinearConvolutionCut cut,
                            const __grid_constant__ LinearConvolutionMaps maps) {
  if (!kForHopper) return;
  extern __shared__ __align__(1024) std::uint8_t shared[];
  const Memory<kIn> memory(shared, cut);
  const int thread = static_cast<int>(threadIdx.x);
  const LinearForwardSizes& product = args.sizes.product;
  const ShortConvolutionSizes& convolution = args.sizes.convolution;
  const Work work(product.num_rows, convolution.seq_len);
  if (thread == kBlockThreads - 1) {
    for (int panel = 0; panel < cut.num_panels; ++panel) InitBarrier(&memory.has_weight[panel], 1);
    for (int stage = 0; stage < cut.num_stages; ++stage) {
      InitBarrier(&memory.full[stage], 1);
      InitBarrier(&memory.empty[stage], kProductThreads);
    }
    for (int place = 0; place < cut.num_convolved; ++place) {
      InitBarrier(&memory.formed[place], kWarpgroup);
      InitBarrier(&memory.free[place], 32);
    }
    cuda::ShowBarriersToCopies();
  }
  const auto* bias = static_cast<const __nv_bfloat16*>(args.bias);
  for (int i = thread; i < cut.num_panels * kTile; i += kBlockThreads) {
    memory.bias[i] = bias != nullptr && i < product.out ? __bfloat162float(bias[i]) : 0.0f;
  }
  __syncthreads();
  if (thread < kProductThreads) {
    FormResults(memory, args, cut, work, maps);
    return;
  }
  const int panel = (thread - kProductThreads) / 32;
  if (panel >= cut.num_convolved) return;
  if (panel * kPanelWidth < convolution.norm_channels) {
    ConvolveResults<true>(memory, args, work, maps, panel);
  } else {
    ConvolveResults<false>(memory, args, work, maps, panel);
  }
}

template <int kIn>
cudaError_t Launch(const LinearConvolutionArgs& args, CUstream_st* stream) {
  const LinearForwardSizes& sizes = args.sizes.product;
  const LinearConvolutionCut cut = CutLinearConvolution(args.sizes);
  LinearConvolutionMaps maps;
  constexpr CopyBox kPanel = {kTile, kPanelWidth};
  const TiledMatrix x = {args.x.data, sizes.num_rows, args.x.stride, sizes.in};
  const TiledMatrix weight = {args.weight.data, sizes.out, args.weight.stride, sizes.in};
  const TiledMatrix projected = {args.projected.data, sizes.num_rows, args.projected.stride,
                                 sizes.out};
  cudaError_t status = MapMatrix(x, kPanel, &maps.x);
  if (status == cudaSuccess) status = MapMatrix(weight, kPanel, &maps.weight);
  if (status == cudaSuccess) status = MapMatrix(projected, kPanel, &maps.projected);
  if (status != cudaSuccess) return status;
  const long long tiles = (sizes.num_rows + kTile - 1) / kTile;
  const long long per_block = (tiles + kLinearForwardBlocks - 1) / kLinearForwardBlocks;
  return LaunchClusters(LinearConvolutionKernel<kIn>,
                        static_cast<int>((tiles + per_block - 1) / per_block), /*cluster_size=*/1,
                        kBlockThreads, static_cast<std::size_t>(cut.bytes), stream, args, cut,
                        maps);
}

}  // namespace

int LaunchLinearConvolution(const LinearConvolutionArgs& args, CUstream_st* stream) {
  return LaunchForWidth(args.sizes.product.in,
                        [&]<int kIn>() { return Launch<kIn>(args, stream); });
}

}  // namespace mixerbench::kernels::fused
