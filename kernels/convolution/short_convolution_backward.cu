// Short causal convolution, SiLU and L2 norm of heads: backward (short_convolution.cuh).
//
// Computes the forward values again. A thread scans a pass further than its span, because an
// input's gradient comes from the outputs up to width - 1 later; gradients of the weights come from
// its own span, are added over the spans of the block, and over blocks by SumRowsKernel. fp32
// arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/short_convolution.cuh"
#include "kernels/device/sum_rows.h"

namespace mixerbench::kernels {
namespace {

using namespace short_convolution;

// As many blocks as an H200 holds at once, so that all end together: what they repeat at the ends
// of their spans is arithmetic here.
constexpr int kResident = 4;  // blocks of a multiprocessor, for the sake of their registers
constexpr int kBlocks = kResident * 132;
template <typename T>
constexpr int kPasses = kPieces<T> == 1 ? 3 : 2;  // what static shared memory holds

// Tokens on their way to shared memory.
template <typename T>
struct PassStream {
  uint4 (*slots)[kPieces<T>][kThreads];
  const T* at;
  long long stride;

  __device__ PassStream(const Place& place, const ChannelShare& share, const ConstRows& rows,
                        uint4 (*all)[kPieces<T>][kThreads])
      : slots(all),
        at(place.At(static_cast<const T*>(rows.data), rows.stride, share.channel)),
        stride(rows.stride) {}

  __device__ void Queue(int slot, int needed) const {
#pragma unroll
    for (int j = 0; j < kTogether; ++j) QueueCopy<T>(slots[slot + j], at + j * stride, j < needed);
  }
};

// Gradient of the convolution's result z in parts of the unit, given z in that unit and the
// gradient d of the output. kHeadLanes: as many as a head has at most; 0: no norm.
template <bool kSilu, int kHeadLanes>
__device__ Vector ThroughActivation(const ChannelShare& share, float norm_eps, const Vector& z,
                                    const Vector& d) {
  constexpr float kScale = kUnit<kSilu>;
  Vector dz = d;
  if constexpr (kHeadLanes == 0) {
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
      if (!kSilu) continue;
      const float sigmoid = Reciprocal(1 + Exp2(z.x[c]));
      dz.x[c] = (d.x[c] * sigmoid) * (kScale + (kScale * kScale) * (z.x[c] - z.x[c] * sigmoid));
    }
  } else {
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
    // The slope is in parts of the unit, so dz needs it twice. No branches: tokens overlap.
    constexpr float kSquare = kScale * kScale;
    const float square = HeadSum<kHeadLanes>(share, Dot(y, y)) * kSquare;
    const float product = HeadSum<kHeadLanes>(share, Dot(y, d)) * kSquare;
    const float inverse = share.normalised ? InverseRoot(square + norm_eps) : 1;
    const float scale = kSquare * inverse;
    const float along = share.normalised ? product * inverse * inverse * scale : 0;
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
      dz.x[c] = d.x[c] * scale - y.x[c] * along;
      if (kSilu) dz.x[c] *= slope.x[c];
    }
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

// The gradients of a thread's span; leaves those of weights in shared memory.
template <typename T, bool kSilu, bool kBias, int kHeadLanes>
__device__ void Scan(const ShortConvolutionBackward& args, const PassLayout& layout,
                     const ChannelShare& share, Shared<T, kBias>& shared) {
  const int seq_len = args.sizes.seq_len;
  Place place(args.sizes, layout, share);
  Place ahead = place;
  PassStream<T> x(ahead, share, args.x, shared.x);
  PassStream<T> d_y(ahead, share, args.d_y, shared.d_y);
  const auto queue = [&](int slot) {
    const int needed = ahead.Needed(seq_len);
    x.Queue(slot, needed);
    d_y.Queue(slot, needed);
    const int rows = ahead.Advance(seq_len, layout.padded);
    x.at += rows * x.stride;
    d_y.at += rows * d_y.stride;
  };
  Passes<kPasses<T>> passes;
  passes.Start(queue);
  Window window =
      WindowBefore(place.At(static_cast<const T*>(args.x.data), args.x.stride, share.channel),
                   args.x.stride, place.t, seq_len);
  const Taps<kBias> taps(share, args.sizes, args.weight, args.bias, 1 / kUnit<kSilu>, shared.taps);
  InputSums d_x;
  WeightSums d_weights;
  // The gradient of a token is complete kTaps - 1 tokens later.
  T* target = place.At(static_cast<T*>(args.d_x.data), args.d_x.stride, share.channel) -
              (kTaps - 1) * args.d_x.stride;
  for (int pass = 0; pass <= layout.span; ++pass) {
    if (pass == layout.span) {  // the rest is another span's
#pragma unroll
      for (int m = 0; m < kTaps + kBias; ++m) {
#pragma unroll
        for (float& value : d_weights.sums[m].x) value *= 1 / kUnit<kSilu>;
        StoreFloat(&shared.sums[m][threadIdx.x * kVector], d_weights.sums[m]);
      }
    }
    const int slot = passes.Next(queue);
    // Tokens of the sequence and the span whose gradients become complete.
    const int first = pass == 0 ? place.t : 0;
    const int last = place.left > 0 ? seq_len : place.left == 0 ? min(place.t, seq_len) : 0;
    int s = place.t - (kTaps - 1);
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      window.Push(TakeCopy<T>(shared.x[slot + j]));
      const Vector dz = ThroughActivation<kSilu, kHeadLanes>(
          share, args.sizes.norm_eps, window.Convolve(taps), TakeCopy<T>(shared.d_y[slot + j]));
      d_weights.Add<kBias>(window, dz);
      StoreIf(s >= first && s < last, target, d_x.Push(taps, dz));
      ++s;
      target += args.d_x.stride;
    }
    target += (place.Advance(seq_len, layout.padded) - kTogether) * args.d_x.stride;
  }
}

template <typename T, bool kSilu, bool kBias>
__global__ void __launch_bounds__(kThreads, kResident)
    BackwardKernel(const ShortConvolutionBackward args, const PassLayout layout) {
  __shared__ Shared<T, kBias> shared;
  const ChannelShare share(args.sizes, layout, layout.parts);
  if (share.first_channel >= args.sizes.norm_channels) {
    Scan<T, kSilu, kBias, 0>(args, layout, share, shared);
  } else if (share.head_lanes <= kMaxGroup / 2) {
    Scan<T, kSilu, kBias, kMaxGroup / 2>(args, layout, share, shared);
  } else {
    Scan<T, kSilu, kBias, kMaxGroup>(args, layout, share, shared);
  }
  __syncthreads();
  // [channel][tap], then the bias [channel].
  const int channels = args.sizes.channels;
  const int width = args.sizes.width;
  const int num_sums = width + (args.bias != nullptr ? 1 : 0);
  float* parts = args.partials + static_cast<long long>(share.part) * channels * num_sums;
  const int pitch = layout.group_threads * kVector;
  const int num_channels = min(pitch, channels - share.first_channel);
  for (int c = static_cast<int>(threadIdx.x); c < num_channels; c += kThreads) {
    float sums[kTaps + kBias] = {};
#pragma unroll 1
    for (int span = 0; span < layout.block_spans; ++span) {
#pragma unroll
      for (int m = 0; m < kTaps + kBias; ++m) sums[m] += shared.sums[m][span * pitch + c];
    }
    const int channel = share.first_channel + c;
#pragma unroll
    for (int m = 0; m < kTaps; ++m) {
      const int tap = m - (kTaps - width);
      if (tap >= 0) parts[channel * width + tap] = sums[m];
    }
    if (kBias && args.bias != nullptr) parts[channels * width + channel] = sums[kTaps + kBias - 1];
  }
}

}  // namespace

int ShortConvolutionPartials(const ShortConvolutionSizes& sizes) {
  return PassLayout(sizes, kBlocks).parts;
}

int LaunchShortConvolutionBackward(const ShortConvolutionBackward& args, CUstream_st* stream) {
  const PassLayout layout(args.sizes, kBlocks);
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

}  // namespace mixerbench::kernels
