// Short causal convolution, SiLU and L2 norm of heads: backward (short_convolution.cuh).
//
// Computes the forward values again. A thread walks width - 1 tokens further than its span, because
// an input's gradient comes from the outputs up to width - 1 later; gradients of the weights come
// from its own span, are added over the spans of the block, and over blocks by SumRowsKernel. fp32
// arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/short_convolution.cuh"
#include "kernels/fused/sum_rows.h"

namespace mixerbench::kernels::fused {
namespace {

using namespace short_convolution;

constexpr int kMaxSpan = 64;  // tokens of a thread; what it walks further costs arithmetic

// Gradient of the convolution's result z, given that of the output.
__device__ void ThroughActivation(const Share& share, const ShortConvolutionSizes& sizes,
                                  const Four& z, Four& d) {
  Four y = z;
  Four slope;  // of the SiLU
  if (sizes.silu) {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const float sigmoid = FastSigmoid(z.x[c]);
      y.x[c] = z.x[c] * sigmoid;
      slope.x[c] = sigmoid + y.x[c] * (1 - sigmoid);
    }
  }
  if (share.any_normalised) {
    const float square = HeadSum(share, Dot(y, y));
    const float product = HeadSum(share, Dot(y, d));
    const float scale = share.normalised ? InverseRoot(square + sizes.norm_eps) : 1;
    const float along = share.normalised ? product * scale * scale : 0;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) d.x[c] = scale * (d.x[c] - y.x[c] * along);
  }
  if (sizes.silu) {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) d.x[c] *= slope.x[c];
  }
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(kMaxThreads, 4)
    BackwardKernel(const ShortConvolutionBackward args, const Layout layout) {
  constexpr int kSums = kWidth + 1;  // of a channel: gradients of its taps and its bias
  __shared__ union {
    struct {
      Slots<T> x, d_y;
    } slots;
    float sums[kMaxThreads * kChannels][kSums];
  } shared;
  const Share share(args.sizes, layout);
  // The outputs of kWidth - 1 tokens after the share depend on its inputs.
  const int exists = min(share.last + kWidth - 1, args.sizes.seq_len);
  Stream<T> x(share, args.x, share.first, exists, shared.slots.x);
  Stream<T> d_y(share, args.d_y, share.first, exists, shared.slots.d_y);
  const auto queue = [&](int slot) {
    x.Queue(slot);
    d_y.Queue(slot);
    CommitToken();
  };
#pragma unroll
  for (int slot = 0; slot < kDepth<T>; ++slot) queue(slot);
  const Taps<kWidth> taps(share, args.weight, args.bias);
  Window<kWidth> window = WindowBefore<T, kWidth>(share, args.x);
  Window<kWidth> dz{};  // of the last kWidth tokens
  float d_weight[kWidth][kChannels] = {};
  Four d_bias{};
  // The gradient of token s is complete at token s + kWidth - 1.
  int s = 1 - kWidth;
  const int count = share.active ? share.last - share.first : 0;
  T* target = At<T>(share, args.d_x, share.first + s);
  const auto step = [&](bool own, int slot) {
    AwaitToken<kDepth<T> - 1>();
    window.Push(x.Take(slot));
    Four d = d_y.Take(slot);
    queue(slot);
    ThroughActivation(share, args.sizes, window.Convolve(taps), d);
    dz.Push(d);
    if (own) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
#pragma unroll
        for (int m = 0; m < kWidth; ++m) d_weight[m][c] += d.x[c] * window.x[m].x[c];
      }
      if (args.bias != nullptr) {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) d_bias.x[c] += d.x[c];
      }
    }
    Four dx{};
#pragma unroll
    for (int m = 0; m < kWidth; ++m) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        dx.x[c] += taps.weight[m][c] * dz.x[kWidth - 1 - m].x[c];
      }
    }
    if (s >= 0 && s < count) *reinterpret_cast<Raw<T>*>(target) = Raw<T>::Of(dx);
    ++s;
    target += args.d_x.stride;
  };
  for (int t = 0; t < layout.span + kWidth - 1; t += kTogether) {
    const bool own = t < layout.span;  // or past the sequence, where d is zero
#pragma unroll
    for (int j = 0; j < kTogether; ++j) step(own, t % kDepth<T> + j);
  }

  AwaitToken<0>();
  __syncthreads();  // the slots become sums
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    float* mine = shared.sums[threadIdx.x * kChannels + c];
#pragma unroll
    for (int m = 0; m < kWidth; ++m) mine[m] = d_weight[m][c];
    mine[kWidth] = d_bias.x[c];
  }
  __syncthreads();
  // [channel][tap], then the bias [channel].
  const int channels = args.sizes.channels;
  float* parts = args.partials + static_cast<long long>(share.part) * channels * kSums;
  const int first_channel = share.channel_block * layout.group_threads * kChannels;
  const int pitch = layout.group_threads * kChannels;
  const int num_channels = min(pitch, channels - first_channel);
  for (int i = static_cast<int>(threadIdx.x); i < num_channels * kSums;
       i += static_cast<int>(blockDim.x)) {
    const int channel = i / kSums;
    const int m = i % kSums;
    float sum = 0;
    for (int span = 0; span < layout.block_spans; ++span)
      sum += shared.sums[span * pitch + channel][m];
    parts[m < kWidth ? (first_channel + channel) * kWidth + m
                     : channels * kWidth + first_channel + channel] = sum;
  }
}

}  // namespace

int ShortConvolutionPartials(const ShortConvolutionSizes& sizes) {
  return Layout(sizes, kMaxSpan).parts;
}

int LaunchShortConvolutionBackward(const ShortConvolutionBackward& args, CUstream_st* stream) {
  const Layout layout(args.sizes, kMaxSpan);
  Dispatch(args.x.element, args.sizes.width, [&]<typename T, int kWidth>() {
    BackwardKernel<T, kWidth><<<layout.blocks(), layout.threads(), 0, stream>>>(args, layout);
  });
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  return LaunchSumRows(args.partials, layout.parts, args.sizes.channels * (args.sizes.width + 1),
                       args.d_weights, stream);
}

}  // namespace mixerbench::kernels::fused
