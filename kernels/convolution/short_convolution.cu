// Short causal convolution, SiLU and L2 norm of heads: forward (short_convolution.cuh). fp32
// arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/short_convolution.cuh"

namespace mixerbench::kernels {
namespace {

using namespace short_convolution;

constexpr int kResident = 8;  // blocks of a multiprocessor
constexpr int kBlocks = 2 * kResident * 132;

constexpr int kPasses = 3;

// The outputs of a thread's span. kNorm: perhaps with a norm.
template <typename T, bool kSilu, bool kBias, bool kNorm>
__device__ void Scan(const ShortConvolutionForward& args, const Layout& layout, const Share& share,
                     Slots<T, kPasses>& slots, SharedTaps<kBias>& shared_taps) {
  Stream<T> x(share, args.x, share.span.last, slots);
  const auto queue = [&](int slot) { x.Queue(slot); };
  Passes<kPasses> passes;
  passes.Start(queue);
  Window window = WindowBefore<T>(share, args.x);
  const Taps<kBias> taps(share, args.sizes, args.weight, args.bias, 1 / kUnit<kSilu>, shared_taps);
  T* target = At<T>(share, args.y, 0);
  int left = share.count();
  for (int t = 0; t < layout.span; t += kTogether) {
    const int slot = passes.Next(queue);
    Vector y[kTogether];
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      window.Push(x.Take(slot + j));
      y[j] = window.Convolve(taps);
    }
    Activate<kSilu, kNorm>(y, share.normalised, share.head_lanes, args.sizes.norm_eps);
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      StoreIf(left > 0, target, y[j]);
      target += args.y.stride;
      --left;
    }
  }
}

template <typename T, bool kSilu, bool kBias>
__global__ void __launch_bounds__(kThreads, kResident)
    ForwardKernel(const ShortConvolutionForward args, const Layout layout) {
  __shared__ Slots<T, kPasses> slots;
  __shared__ SharedTaps<kBias> taps;
  const Share share(args.sizes, layout);
  if (share.first_channel < args.sizes.norm_channels) {
    Scan<T, kSilu, kBias, true>(args, layout, share, slots, taps);
  } else {
    Scan<T, kSilu, kBias, false>(args, layout, share, slots, taps);
  }
}

}  // namespace

int LaunchShortConvolutionForward(const ShortConvolutionForward& args, CUstream_st* stream) {
  const Layout layout(args.sizes, kBlocks);
  Dispatch(args.x.element, args.sizes.silu, args.bias != nullptr,
           [&]<typename T, bool kSilu, bool kBias>() {
             ForwardKernel<T, kSilu, kBias><<<layout.blocks(), kThreads, 0, stream>>>(args, layout);
           });
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels
