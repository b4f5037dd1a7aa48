// Short causal convolution, SiLU and L2 norm of heads: forward (short_convolution.cuh). fp32
// arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused/short_convolution.cuh"

namespace mixerbench::kernels::fused {
namespace {

using namespace short_convolution;

constexpr int kMaxSpan = 32;  // tokens of a thread

template <typename T, int kWidth>
__global__ void __launch_bounds__(kMaxThreads, 8)
    ForwardKernel(const ShortConvolutionForward args, const Layout layout) {
  __shared__ Slots<T> slots;
  const Share share(args.sizes, layout);
  Stream<T> x(share, args.x, share.first, share.last, slots);
#pragma unroll
  for (int slot = 0; slot < kDepth<T>; ++slot) {
    x.Queue(slot);
    CommitToken();
  }
  const Taps<kWidth> taps(share, args.weight, args.bias);
  Window<kWidth> window = WindowBefore<T, kWidth>(share, args.x);
  T* target = At<T>(share, args.y, share.first);
  int left = share.active ? share.last - share.first : 0;
  const auto step = [&](int slot) {
    AwaitToken<kDepth<T> - 1>();
    window.Push(x.Take(slot));
    x.Queue(slot);
    CommitToken();
    Four y = window.Convolve(taps);
    if (args.sizes.silu) {
#pragma unroll
      for (float& value : y.x) value *= FastSigmoid(value);
    }
    if (share.any_normalised) {
      const float sum = HeadSum(share, Dot(y, y));
      const float scale = share.normalised ? InverseRoot(sum + args.sizes.norm_eps) : 1;
#pragma unroll
      for (float& value : y.x) value *= scale;
    }
    if (left > 0) *reinterpret_cast<Raw<T>*>(target) = Raw<T>::Of(y);
    target += args.y.stride;
    --left;
  };
  for (int t = 0; t < layout.span; t += kTogether) {
#pragma unroll
    for (int j = 0; j < kTogether; ++j) step(t % kDepth<T> + j);
  }
}

}  // namespace

int LaunchShortConvolutionForward(const ShortConvolutionForward& args, CUstream_st* stream) {
  const Layout layout(args.sizes, kMaxSpan);
  Dispatch(args.x.element, args.sizes.width, [&]<typename T, int kWidth>() {
    ForwardKernel<T, kWidth><<<layout.blocks(), layout.threads(), 0, stream>>>(args, layout);
  });
  return cudaGetLastError();
}

}  // namespace mixerbench::kernels::fused
