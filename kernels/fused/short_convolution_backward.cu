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

// As many blocks as an H200 holds at once, so that all end together: what they repeat at the ends
// of their spans is arithmetic here.
constexpr int kResident = 4;  // blocks of a multiprocessor, for the sake of their registers
constexpr int kBlocks = kResident * 132;
template <typename T>
constexpr int kPasses = kPieces<T> == 1 ? 3 : 2;  // what static shared memory holds

// Gradient of the convolution's result z in parts of the unit, given z in that unit and the
// gradient d of the output.
template <bool kSilu, bool kNorm>
__device__ Vector ThroughActivation(const Share& share, float norm_eps, const Vector& z,
                                    const Vector& d) {
  constexpr float kScale = kUnit<kSilu>;
  Vector y = z;    // in the unit
  Vector slope{};  // of the SiLU, in parts of the unit
  if (kSilu) {
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
      const float sigmoid = Reciprocal(1 + Exp2(z.x[c]));
      y.x[c] = z.x[c] * sigmoid;
      slope.x[c] = sigmoid * (1 / kScale) + (y.x[c] - y.x[c] * sigmoid);
    }
  }
  float scale = kScale * kScale;  // the slope is in parts of the unit, so dz needs it twice
  float along = 0;
  if (kNorm) {
    const float square = HeadSum(share, Dot(y, y)) * scale;
    const float product = HeadSum(share, Dot(y, d)) * scale;
    if (share.normalised) {
      const float inverse = InverseRoot(square + norm_eps);
      scale *= inverse;
      along = product * inverse * inverse * scale;
    }
  }
  Vector dz;
#pragma unroll
  for (int c = 0; c < kVector; ++c) {
    dz.x[c] = d.x[c] * scale;
    if (kNorm) dz.x[c] -= y.x[c] * along;
    if (kSilu) dz.x[c] *= slope.x[c];
  }
  return dz;
}

// Gradients of inputs: token t sends taps[m] dz_t to token t - kTaps + 1 + m, whose sum is complete
// with m = 0.
struct InputSums {
  Vector sums[kTaps - 1] = {};

  template <bool kBias>
  __device__ Vector Push(const Taps<kBias>& taps, const Vector& dz) {
    Vector complete;
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
      complete.x[c] = sums[0].x[c] + taps.weight[0].x[c] * dz.x[c];
#pragma unroll
      for (int m = 1; m + 1 < kTaps; ++m) {
        sums[m - 1].x[c] = sums[m].x[c] + taps.weight[m].x[c] * dz.x[c];
      }
      sums[kTaps - 2].x[c] = taps.weight[kTaps - 1].x[c] * dz.x[c];
    }
    return complete;
  }
};

// Gradients of weights: those of the taps, then of the bias.
struct WeightSums {
  Vector sums[kTaps + 1] = {};

  template <bool kBias>
  __device__ void Add(const Window& x, const Vector& dz) {
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
#pragma unroll
      for (int m = 0; m < kTaps; ++m) sums[m].x[c] += dz.x[c] * x.x[m].x[c];
      if (kBias) sums[kTaps].x[c] += dz.x[c];
    }
  }
};

template <typename T, bool kBias>
struct Shared {
  static constexpr int kPitch = kThreads * kVector + kVector;  // no bank meets another tap
  Slots<T, kPasses<T>> x, d_y;
  float sums[kTaps + kBias][kPitch];  // WeightSums of all threads
  SharedTaps<kBias> taps;
};

// The gradients of a thread's span; leaves those of weights in shared memory. kNorm: perhaps with a
// norm.
template <typename T, bool kSilu, bool kBias, bool kNorm>
__device__ void Walk(const ShortConvolutionBackward& args, const Layout& layout, const Share& share,
                     Shared<T, kBias>& shared) {
  // The outputs of kTaps - 1 tokens after the share depend on its inputs.
  const int exists = min(share.span.last + kTaps - 1, args.sizes.seq_len);
  Stream<T> x(share, args.x, exists, shared.x);
  Stream<T> d_y(share, args.d_y, exists, shared.d_y);
  const auto queue = [&](int slot) {
    x.Queue(slot);
    d_y.Queue(slot);
  };
  Passes<kPasses<T>> passes;
  passes.Start(queue);
  Window window = WindowBefore<T>(share, args.x);
  const Taps<kBias> taps(share, args.sizes, args.weight, args.bias, 1 / kUnit<kSilu>, shared.taps);
  InputSums d_x;
  WeightSums d_weights;
  // The gradient of token s is complete at token s + kTaps - 1.
  int s = 1 - kTaps;
  const int count = share.count();
  T* target = At<T>(share, args.d_x, s);
  for (int t = 0; t <= layout.span; t += kTogether) {
    if (t == layout.span) {  // the rest is another span's, or past the sequence, where d_y is zero
#pragma unroll
      for (int m = 0; m < kTaps + kBias; ++m) {
#pragma unroll
        for (float& value : d_weights.sums[m].x) value *= 1 / kUnit<kSilu>;
        StoreFloat(&shared.sums[m][threadIdx.x * kVector], d_weights.sums[m]);
      }
    }
    const int slot = passes.Next(queue);
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      window.Push(x.Take(slot + j));
      const Vector dz = ThroughActivation<kSilu, kNorm>(share, args.sizes.norm_eps,
                                                        window.Convolve(taps), d_y.Take(slot + j));
      d_weights.Add<kBias>(window, dz);
      StoreIf(s >= 0 && s < count, target, d_x.Push(taps, dz));
      ++s;
      target += args.d_x.stride;
    }
  }
}

template <typename T, bool kSilu, bool kBias>
__global__ void __launch_bounds__(kThreads, kResident)
    BackwardKernel(const ShortConvolutionBackward args, const Layout layout) {
  __shared__ Shared<T, kBias> shared;
  const Share share(args.sizes, layout);
  if (share.first_channel < args.sizes.norm_channels) {
    Walk<T, kSilu, kBias, true>(args, layout, share, shared);
  } else {
    Walk<T, kSilu, kBias, false>(args, layout, share, shared);
  }
  __syncthreads();
  // [channel][tap], then the bias [channel].
  const int channels = args.sizes.channels;
  const int width = args.sizes.width;
  const int num_sums = width + (args.bias != nullptr ? 1 : 0);
  float* parts = args.partials + static_cast<long long>(share.part) * channels * num_sums;
  const int pitch = layout.group_threads * kVector;
  const int num_channels = min(pitch, channels - share.first_channel);
  for (int i = static_cast<int>(threadIdx.x); i < num_channels * num_sums; i += kThreads) {
    const bool of_tap = i < num_channels * width;
    const int channel = of_tap ? i / width : i - num_channels * width;
    const float* sums = shared.sums[of_tap ? kTaps - width + i % width : kTaps] + channel;
    float sum = 0;
    for (int span = 0; span < layout.block_spans; ++span) sum += sums[span * pitch];
    const int all = share.first_channel + channel;
    parts[of_tap ? all * width + i % width : channels * width + all] = sum;
  }
}

}  // namespace

int ShortConvolutionPartials(const ShortConvolutionSizes& sizes) {
  return Layout(sizes, kBlocks).parts;
}

int LaunchShortConvolutionBackward(const ShortConvolutionBackward& args, CUstream_st* stream) {
  const Layout layout(args.sizes, kBlocks);
  Dispatch(args.x.element, args.sizes.silu, args.bias != nullptr,
           [&]<typename T, bool kSilu, bool kBias>() {
             BackwardKernel<T, kSilu, kBias>
                 <<<layout.blocks(), kThreads, 0, stream>>>(args, layout);
           });
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  const int num_sums = args.sizes.width + (args.bias != nullptr ? 1 : 0);
  return LaunchSumRows(args.partials, layout.parts, args.sizes.channels * num_sums, args.d_weights,
                       stream);
}

}  // namespace mixerbench::kernels::fused
