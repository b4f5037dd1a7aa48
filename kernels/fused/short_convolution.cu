// Short causal convolution, SiLU and L2 norm of heads, forward and backward.
//
// A thread owns four neighbouring channels and walks kTime tokens with the last inputs in
// registers; the 32 lanes of a warp hold 128 channels of the same tokens, so the lanes of a head
// are in one warp and its norm is a sum over lanes. The backward pass computes the forward values
// again. It walks width - 1 tokens further than its share, because an input's gradient comes from
// the outputs up to width - 1 later; gradients of the weights come from its own share, are added
// over the warps of the block, and over blocks by SumRowsKernel. fp32 arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "kernels/fused/short_convolution_device.h"
#include "kernels/fused/sum_rows.h"
#include "kernels/fused/vector_io.cuh"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kLanes = 32;
constexpr int kChannels = 4;  // of a thread
constexpr int kWarps = 4;     // of a block, each with tokens of its own
constexpr int kTime = 32;     // tokens of a warp

struct Four {
  float x[kChannels];
};

// Four elements as they lie in memory: half the registers in bf16.
template <typename T>
struct Raw;
template <>
struct Raw<float> {
  float4 bits;
  __device__ Four Values() const { return {{bits.x, bits.y, bits.z, bits.w}}; }
  static __device__ Raw Of(const Four& v) { return {make_float4(v.x[0], v.x[1], v.x[2], v.x[3])}; }
};
template <>
struct Raw<__nv_bfloat16> {
  uint2 bits;
  __device__ Four Values() const {
    const float2 low = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(bits.x));
    const float2 high = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(bits.y));
    return {{low.x, low.y, high.x, high.y}};
  }
  static __device__ Raw Of(const Four& v) {
    Raw raw;
    reinterpret_cast<__nv_bfloat162&>(raw.bits.x) = __floats2bfloat162_rn(v.x[0], v.x[1]);
    reinterpret_cast<__nv_bfloat162&>(raw.bits.y) = __floats2bfloat162_rn(v.x[2], v.x[3]);
    return raw;
  }
};

// Which channels and tokens a thread works on.
struct Share {
  int channel;      // the first of four
  bool active;      // it exists
  bool normalised;  // it belongs to a normalised head
  int norm_lanes;   // lanes of a head
  long long row0;   // row of token 0 of the sequence
  int first, last;  // tokens

  __device__ explicit Share(const ShortConvolutionSizes& sizes) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const int warp = static_cast<int>(threadIdx.x) / kLanes;
    const int spans = (sizes.seq_len + kTime - 1) / kTime;
    const long long span = static_cast<long long>(blockIdx.x) * kWarps + warp;
    channel = (static_cast<int>(blockIdx.y) * kLanes + lane) * kChannels;
    active = channel < sizes.channels && span < sizes.batch_size * spans;
    normalised = channel < sizes.norm_channels;
    norm_lanes = sizes.norm_channels > 0 ? sizes.norm_dim / kChannels : 1;
    row0 = span / spans * sizes.seq_len;
    first = static_cast<int>(span % spans) * kTime;
    last = min(first + kTime, sizes.seq_len);
  }
};

template <int kWidth>
struct Taps {
  float weight[kWidth][kChannels];
  Four bias;

  __device__ Taps(const Share& share, const float* weights, const float* biases) {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      bias.x[c] = share.active && biases != nullptr ? biases[share.channel + c] : 0;
#pragma unroll
      for (int m = 0; m < kWidth; ++m) {
        weight[m][c] = share.active ? weights[(share.channel + c) * kWidth + m] : 0;
      }
    }
  }
};

// The last kWidth inputs, the newest at the end; zeros before the sequence.
template <int kWidth>
struct Window {
  Four x[kWidth];

  __device__ void Push(const Four& next) {
#pragma unroll
    for (int m = 0; m + 1 < kWidth; ++m) x[m] = x[m + 1];
    x[kWidth - 1] = next;
  }

  __device__ Four Convolve(const Taps<kWidth>& taps) const {
    Four z = taps.bias;
#pragma unroll
    for (int m = 0; m < kWidth; ++m) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) z.x[c] += taps.weight[m][c] * x[m].x[c];
    }
    return z;
  }
};

template <typename T>
__device__ Raw<T> LoadToken(const Share& share, const ConstRows& rows, int t) {
  if (!share.active || t < 0) return {};
  const long long index = (share.row0 + t) * rows.stride + share.channel;
  return *reinterpret_cast<const Raw<T>*>(static_cast<const T*>(rows.data) + index);
}

template <typename T>
__device__ void StoreToken(const Share& share, const Rows& rows, int t, const Four& v) {
  const long long index = (share.row0 + t) * rows.stride + share.channel;
  *reinterpret_cast<Raw<T>*>(static_cast<T*>(rows.data) + index) = Raw<T>::Of(v);
}

// kCount tokens from t on; zeros from `end` on.
template <typename T, int kCount>
__device__ void LoadTokens(const Share& share, const ConstRows& rows, int t, int end,
                           Raw<T> (&tokens)[kCount]) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    tokens[j] = t + j < end ? LoadToken<T>(share, rows, t + j) : Raw<T>{};
  }
}

template <typename T, int kWidth>
__device__ Window<kWidth> WindowBefore(const Share& share, const ConstRows& x) {
  Window<kWidth> window{};
#pragma unroll
  for (int m = 1; m < kWidth; ++m) {
    window.Push(LoadToken<T>(share, x, share.first - kWidth + m).Values());
  }
  return window;
}

// 2 ulp of fp32.
__device__ float Sigmoid(float x) { return __fdividef(1, 1 + __expf(-x)); }

__device__ float Dot(const Four& a, const Four& b) {
  return a.x[0] * b.x[0] + a.x[1] * b.x[1] + a.x[2] * b.x[2] + a.x[3] * b.x[3];
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(kWarps* kLanes, 5)
    ForwardKernel(const ShortConvolutionForward args) {
  constexpr int kInFlight = 8;  // tokens loaded while as many are worked on
  const Share share(args.sizes);
  const Taps<kWidth> taps(share, args.weight, args.bias);
  Window<kWidth> window = WindowBefore<T, kWidth>(share, args.x);
  Raw<T> next[kInFlight];
  LoadTokens(share, args.x, share.first, share.last, next);
  for (int t0 = share.first; t0 < share.last; t0 += kInFlight) {
    Raw<T> current[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) current[j] = next[j];
    LoadTokens(share, args.x, t0 + kInFlight, share.last, next);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      window.Push(current[j].Values());
      Four y = window.Convolve(taps);
      if (args.sizes.silu) {
#pragma unroll
        for (float& value : y.x) value *= Sigmoid(value);
      }
      if (args.sizes.norm_channels > 0) {
        const float scale = rsqrtf(GroupSum(Dot(y, y), share.norm_lanes) + args.sizes.norm_eps);
#pragma unroll
        for (float& value : y.x) value *= share.normalised ? scale : 1;
      }
      if (share.active && t0 + j < share.last) StoreToken<T>(share, args.y, t0 + j, y);
    }
  }
}

// Gradient of the convolution's result z, given that of the output.
__device__ Four ThroughActivation(const Share& share, const ShortConvolutionSizes& sizes,
                                  const Four& z, Four d) {
  Four sigmoid{};
  Four y = z;
  if (sizes.silu) {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      sigmoid.x[c] = Sigmoid(z.x[c]);
      y.x[c] = z.x[c] * sigmoid.x[c];
    }
  }
  if (sizes.norm_channels > 0) {
    const float square = GroupSum(Dot(y, y), share.norm_lanes);
    const float product = GroupSum(Dot(y, d), share.norm_lanes);
    const float scale = rsqrtf(square + sizes.norm_eps);
    const float along = product * scale * scale;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      if (share.normalised) d.x[c] = scale * (d.x[c] - y.x[c] * along);
    }
  }
  if (sizes.silu) {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      d.x[c] *= sigmoid.x[c] + y.x[c] * (1 - sigmoid.x[c]);
    }
  }
  return d;
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(kWarps* kLanes, 4)
    BackwardKernel(const ShortConvolutionBackward args) {
  constexpr int kInFlight = sizeof(T) == 2 ? 4 : 2;  // tokens loaded while as many are worked on
  __shared__ float sums[kWarps][kLanes * kChannels * (kWidth + 1)];
  const Share share(args.sizes);
  const Taps<kWidth> taps(share, args.weight, args.bias);
  Window<kWidth> window = WindowBefore<T, kWidth>(share, args.x);
  Window<kWidth> dz{};  // of the last kWidth tokens
  float d_weight[kWidth][kChannels] = {};
  Four d_bias{};
  // The tokens after the share whose outputs depend on inputs of the share.
  const int end = share.first < share.last ? share.last + kWidth - 1 : share.last;
  const int exists = min(end, args.sizes.seq_len);
  Raw<T> next[kInFlight];
  Raw<T> d_next[kInFlight];
  LoadTokens(share, args.x, share.first, exists, next);
  LoadTokens(share, args.d_y, share.first, exists, d_next);
  for (int t0 = share.first; t0 < end; t0 += kInFlight) {
    Raw<T> current[kInFlight];
    Raw<T> d_current[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      current[j] = next[j];
      d_current[j] = d_next[j];
    }
    LoadTokens(share, args.x, t0 + kInFlight, exists, next);
    LoadTokens(share, args.d_y, t0 + kInFlight, exists, d_next);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int t = t0 + j;
      window.Push(current[j].Values());
      dz.Push(ThroughActivation(share, args.sizes, window.Convolve(taps), d_current[j].Values()));
      if (t < share.last) {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
          d_bias.x[c] += dz.x[kWidth - 1].x[c];
#pragma unroll
          for (int m = 0; m < kWidth; ++m) {
            d_weight[m][c] += dz.x[kWidth - 1].x[c] * window.x[m].x[c];
          }
        }
      }
      const int s = t - kWidth + 1;  // the token whose gradient is complete now
      if (!share.active || s < share.first || s >= share.last) continue;
      Four dx{};
#pragma unroll
      for (int m = 0; m < kWidth; ++m) {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
          dx.x[c] += taps.weight[m][c] * dz.x[kWidth - 1 - m].x[c];
        }
      }
      StoreToken<T>(share, args.d_x, s, dx);
    }
  }

  // Of a block's 128 channels: weight gradients [channel][tap], then bias gradients [channel].
  constexpr int kBlockChannels = kLanes * kChannels;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    const int channel = lane * kChannels + c;
#pragma unroll
    for (int m = 0; m < kWidth; ++m) sums[warp][channel * kWidth + m] = d_weight[m][c];
    sums[warp][kBlockChannels * kWidth + channel] = d_bias.x[c];
  }
  __syncthreads();
  const int channels = args.sizes.channels;
  const int first_channel = static_cast<int>(blockIdx.y) * kBlockChannels;
  const int num_channels = min(int{kBlockChannels}, channels - first_channel);
  float* parts = args.partials + static_cast<long long>(blockIdx.x) * channels * (kWidth + 1);
  const auto write = [&](float* target, int offset, int count) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kWarps * kLanes) {
      float sum = 0;
      for (int w = 0; w < kWarps; ++w) sum += sums[w][offset + i];
      target[i] = sum;
    }
  };
  write(parts + first_channel * kWidth, 0, num_channels * kWidth);
  write(parts + channels * kWidth + first_channel, kBlockChannels * kWidth, num_channels);
}

dim3 Grid(const ShortConvolutionSizes& sizes) {
  constexpr int kBlockChannels = kLanes * kChannels;
  return dim3(static_cast<unsigned>(ShortConvolutionPartials(sizes)),
              static_cast<unsigned>((sizes.channels + kBlockChannels - 1) / kBlockChannels));
}

// f.template operator()<element type, width>().
template <typename F>
void Dispatch(Element element, int width, F f) {
  const auto with_width = [&]<typename T>() {
    if (width == 2) {
      f.template operator()<T, 2>();
    } else if (width == 3) {
      f.template operator()<T, 3>();
    } else {
      f.template operator()<T, 4>();
    }
  };
  if (element == Element::kFloat) {
    with_width.template operator()<float>();
  } else {
    with_width.template operator()<__nv_bfloat16>();
  }
}

}  // namespace

int ShortConvolutionPartials(const ShortConvolutionSizes& sizes) {
  const long long spans = sizes.batch_size * ((sizes.seq_len + kTime - 1) / kTime);
  return static_cast<int>((spans + kWarps - 1) / kWarps);
}

int LaunchShortConvolutionForward(const ShortConvolutionForward& args, CUstream_st* stream) {
  Dispatch(args.x.element, args.sizes.width, [&]<typename T, int kWidth>() {
    ForwardKernel<T, kWidth><<<Grid(args.sizes), kWarps * kLanes, 0, stream>>>(args);
  });
  return cudaGetLastError();
}

int LaunchShortConvolutionBackward(const ShortConvolutionBackward& args, CUstream_st* stream) {
  Dispatch(args.x.element, args.sizes.width, [&]<typename T, int kWidth>() {
    BackwardKernel<T, kWidth><<<Grid(args.sizes), kWarps * kLanes, 0, stream>>>(args);
  });
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  return LaunchSumRows(args.partials, ShortConvolutionPartials(args.sizes),
                       args.sizes.channels * (args.sizes.width + 1), args.d_weights, stream);
}

}  // namespace mixerbench::kernels::fused
