// A linear layer and the short convolution of its first columns on raw pointers.
// linear_convolution.cu defines it; device_stub.cc does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kernels/fused/linear_forward_device.h"
#include "kernels/fused/short_convolution_device.h"

namespace mixerbench::kernels::fused {

struct LinearConvolutionSizes {
  LinearForwardSizes product;
  ShortConvolutionSizes convolution;
};

constexpr int kConvolvingWarps = 8;             // of a block; each has 64 columns of its own
constexpr int kTokensPerConvolvingThread = 16;  // of a tile of 64

// How the shared memory of a block is used.
struct LinearConvolutionCut {
  int num_panels = 0;     // of 64 rows of the weight, all of which stay there
  int num_stages = 0;     // tiles of x under way
  int num_convolved = 0;  // panels of results, the first ones: each has a place and a warp
  long long bytes = 0;
};

// As many stages as there is room for, up to two; none when one is too many.
constexpr LinearConvolutionCut CutLinearConvolution(const LinearConvolutionSizes& sizes) {
  constexpr long long kMostBytes = 227 * 1024;
  constexpr long long kMostStages = 2;
  constexpr long long kPanelBytes = 2 * kLinearForwardTile * kLinearForwardTile;
  constexpr long long kBarrier = 8;
  const long long tile_bytes = sizes.product.in / kLinearForwardTile * kPanelBytes;
  const long long stage_bytes = tile_bytes + 2 * kBarrier;
  const int panels = (sizes.product.out + kLinearForwardTile - 1) / kLinearForwardTile;
  const int convolved = sizes.convolution.channels / kLinearForwardTile;
  // Tiles of the weight, its bias in fp32, a barrier for each; results with two.
  const long long fixed = panels * (tile_bytes + 4 * kLinearForwardTile + kBarrier) +
                          convolved * (kPanelBytes + 2 * kBarrier);
  const long long stages = std::min(kMostStages, (kMostBytes - fixed) / stage_bytes);
  if (fixed > kMostBytes || stages == 0) return {};
  return {.num_panels = panels,
          .num_stages = static_cast<int>(stages),
          .num_convolved = convolved,
          .bytes = fixed + stages * stage_bytes};
}

// Whether the device function takes these sizes; the convolution is that of the first
// `convolution.channels` columns.
constexpr bool LinearConvolutionTakes(const LinearConvolutionSizes& sizes) {
  const auto& [product, convolution] = sizes;
  constexpr int kPanel = kLinearForwardTile;
  return LinearForwardTakes(product) && product.out > kPanel &&
         CutLinearConvolution(sizes).num_stages > 0 &&
         ShortConvolutionSupports(convolution.channels, convolution.width,
                                  convolution.norm_channels, convolution.norm_dim) &&
         convolution.silu && convolution.channels % kPanel == 0 &&
         convolution.channels <= std::min(product.out, kConvolvingWarps * kPanel) &&
         convolution.batch_size * convolution.seq_len == product.num_rows &&
         convolution.seq_len % kTokensPerConvolvingThread == 0 && convolution.norm_dim <= kPanel;
}

struct LinearConvolutionArgs {
  LinearConvolutionSizes sizes;
  // bf16, rows at multiples of 16 bytes, none within another.
  ConstRows x;                  // [B T, in]
  ConstRows weight;             // [out, in]
  const void* bias = nullptr;   // [out] bf16, or absent
  const float* taps = nullptr;  // [channels, width], the last tap meets the current token
  Rows projected;               // [B T, out]: x weight^T + bias
  Rows convolved;               // [B T, channels]
};

// What LaunchLinearForward and then LaunchShortConvolutionForward compute, bit for bit. Queues the
// work; returns the CUDA error code of the launch. LinearConvolutionTakes(args.sizes)
// on a GPU that IsHopper (hopper_device.h).
int LaunchLinearConvolution(const LinearConvolutionArgs& args, CUstream_st* stream);

}  // namespace mixerbench::kernels::fused
