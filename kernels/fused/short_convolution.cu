// Short causal convolution, SiLU and L2 norm of heads, forward and backward.
//
// A thread owns 16 bytes of neighbouring channels and walks a span of up to 64 tokens with the last
// inputs in registers; the lanes of a head are neighbours in one warp and its norm is a sum over
// them. Inputs are loaded kInFlight tokens ahead: as soon as one is taken, its registers receive a
// later one. Blocks walk the tokens from the end, because what the product before wrote last is
// still in the cache.
//
// The backward pass computes the forward values again. It walks width - 1 tokens further than its
// span, because an input's gradient comes from the outputs up to width - 1 later; gradients of the
// weights come from its own span, are added over the spans of the block, and over blocks by
// SumRowsKernel. fp32 arithmetic, deterministic.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <cuda_bf16.h>

#include "kernels/fused/fast_math.cuh"
#include "kernels/fused/short_convolution_device.h"
#include "kernels/fused/sum_rows.h"

namespace mixerbench::kernels::fused {
namespace {

constexpr int kMaxThreads = 128;
constexpr int kForwardSpan = 32;  // tokens of a thread, at most
constexpr int kBackwardSpan = 64;       // its ends cost arithmetic
constexpr int kChannels = 4;            // of a thread
constexpr int kTogether =
    4;  // tokens between two passes of a loop: windows return to their registers

struct Four {
  float x[kChannels];
};

// Four elements as they lie in memory.
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
  // A bf16 is the upper half of a float. (Through __nv_bfloat162, shared memory is read in halves.)
  __device__ Four Values() const {
    return {{__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000u),
             __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xffff0000u)}};
  }
  static __device__ Raw Of(const Four& v) {
    Raw raw;
    reinterpret_cast<__nv_bfloat162&>(raw.bits.x) = __floats2bfloat162_rn(v.x[0], v.x[1]);
    reinterpret_cast<__nv_bfloat162&>(raw.bits.y) = __floats2bfloat162_rn(v.x[2], v.x[3]);
    return raw;
  }
};

// How threads share the work; a function of the sizes alone.
struct Layout {
  int group_threads;   // threads that hold channels of one token, whole heads of them
  int channel_blocks;  // blocks for all channels
  int span;            // tokens of a thread
  int spans;           // of a sequence
  int block_spans;     // spans of a block
  int parts;           // blocks for all tokens

  Layout(const ShortConvolutionSizes& sizes, int max_span) {
    // A warp holds up to 128 channels of one span, so that its threads have the same work.
    constexpr int kMaxGroup = 32;
    const int head = sizes.norm_channels > 0 ? sizes.norm_dim / kChannels : 1;
    const int all = RoundUp(sizes.channels / kChannels, head);
    group_threads = std::min(all, kMaxGroup);
    channel_blocks = (all + group_threads - 1) / group_threads;
    block_spans = kMaxThreads / group_threads;
    // Long spans repeat less work at their ends, short ones make more blocks.
    constexpr int kMinSpan = 16;
    constexpr long long kManyBlocks = 1024;
    for (span = max_span;; span /= 2) {
      spans = (sizes.seq_len + span - 1) / span;
      parts = static_cast<int>((sizes.batch_size * spans + block_spans - 1) / block_spans);
      if (span == kMinSpan || static_cast<long long>(parts) * channel_blocks >= kManyBlocks) break;
    }
  }

  int threads() const { return RoundUp(block_spans * group_threads, 32); }
  unsigned blocks() const { return static_cast<unsigned>(parts * channel_blocks); }

 private:
  static constexpr int RoundUp(int x, int unit) { return (x + unit - 1) / unit * unit; }
};

// Which channels and tokens a thread works on.
struct Share {
  int part;             // of the tokens, of the block
  int channel_block;    // of the block
  int channel;          // the first of four
  bool active;          // it has work
  bool normalised;      // its channels belong to a normalised head
  bool any_normalised;  // those of some lane of the warp do
  int head_lanes;
  long long row0;   // row of token 0 of the sequence
  int first, last;  // tokens

  __device__ Share(const ShortConvolutionSizes& sizes, const Layout& layout) {
    const int thread = static_cast<int>(threadIdx.x);
    const int block = static_cast<int>(blockIdx.x);
    part = layout.parts - 1 - block / layout.channel_blocks;
    // Turned from part to part: else a multiprocessor may get normalised channels alone.
    channel_block = (block + part) % layout.channel_blocks;
    const int in_block = thread / layout.group_threads;
    const int group = channel_block * layout.group_threads + thread % layout.group_threads;
    const long long index = static_cast<long long>(part) * layout.block_spans + in_block;
    const long long sequence = index / layout.spans;
    channel = group * kChannels;
    active =
        in_block < layout.block_spans && channel < sizes.channels && sequence < sizes.batch_size;
    normalised = channel < sizes.norm_channels;
    any_normalised = __any_sync(0xffffffffu, normalised);
    head_lanes = sizes.norm_channels > 0 ? sizes.norm_dim / kChannels : 1;
    row0 = sequence * sizes.seq_len;
    first = static_cast<int>(index - sequence * layout.spans) * layout.span;
    last = min(first + layout.span, sizes.seq_len);
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

// The last kWidth values, the newest at the end.
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

// Tokens in flight to shared memory, 64 bytes of a thread.
template <typename T>
constexpr int kDepth = 16 / static_cast<int>(sizeof(T));

template <typename T>
using Slots = Raw<T>[kDepth<T>][kMaxThreads];

// Tokens first .. end - 1 of a thread's channels in order, on the way to its own slots of shared
// memory, so that they cost no registers and no barrier; zeros from `end` on. Copies are counted in
// groups: a thread commits one for each token of all its streams.
template <typename T>
struct Stream {
  Raw<T>* slots;
  const T* at;  // of the token to queue next
  long long stride;
  int left;  // tokens not queued yet

  __device__ Stream(const Share& share, const ConstRows& rows, int first, int end, Slots<T>& all)
      : slots(&all[0][threadIdx.x]),
        at(static_cast<const T*>(rows.data) + (share.row0 + first) * rows.stride + share.channel),
        stride(rows.stride),
        left(share.active ? end - first : 0) {}

  __device__ void Queue(int slot) {
    constexpr int kBytes = sizeof(Raw<T>);
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(slots + slot * kMaxThreads));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(at), "n"(kBytes),
                 "r"(left > 0 ? kBytes : 0)
                 : "memory");
    at += stride;
    --left;
  }

  __device__ Four Take(int slot) const { return slots[slot * kMaxThreads].Values(); }
};

__device__ void CommitToken() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until no more than so many tokens are in flight.
template <int kTokens>
__device__ void AwaitToken() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kTokens) : "memory");
}

template <typename T>
__device__ T* At(const Share& share, const Rows& rows, int t) {
  return static_cast<T*>(rows.data) + (share.row0 + t) * rows.stride + share.channel;
}

// The inputs before the share; zeros before the sequence.
template <typename T, int kWidth>
__device__ Window<kWidth> WindowBefore(const Share& share, const ConstRows& x) {
  Window<kWidth> window{};
#pragma unroll
  for (int m = 1; m < kWidth; ++m) {
    const int t = share.first - kWidth + m;
    Raw<T> raw{};
    if (share.active && t >= 0) {
      raw = *reinterpret_cast<const Raw<T>*>(static_cast<const T*>(x.data) +
                                             (share.row0 + t) * x.stride + share.channel);
    }
    window.Push(raw.Values());
  }
  return window;
}

__device__ float HeadSum(const Share& share, float x) {
  constexpr int kMaxLanes = kMaxShortConvolutionNorm / kChannels;
  return ScaledGroupSum<kMaxLanes>(x, share.head_lanes) * GroupScale<kMaxLanes>(share.head_lanes);
}

__device__ float Dot(const Four& a, const Four& b) {
  float sum = a.x[0] * b.x[0];
#pragma unroll
  for (int c = 1; c < kChannels; ++c) sum += a.x[c] * b.x[c];
  return sum;
}

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
  return Layout(sizes, kBackwardSpan).parts;
}

int LaunchShortConvolutionForward(const ShortConvolutionForward& args, CUstream_st* stream) {
  const Layout layout(args.sizes, kForwardSpan);
  Dispatch(args.x.element, args.sizes.width, [&]<typename T, int kWidth>() {
    ForwardKernel<T, kWidth><<<layout.blocks(), layout.threads(), 0, stream>>>(args, layout);
  });
  return cudaGetLastError();
}

int LaunchShortConvolutionBackward(const ShortConvolutionBackward& args, CUstream_st* stream) {
  const Layout layout(args.sizes, kBackwardSpan);
  Dispatch(args.x.element, args.sizes.width, [&]<typename T, int kWidth>() {
    BackwardKernel<T, kWidth><<<layout.blocks(), layout.threads(), 0, stream>>>(args, layout);
  });
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  return LaunchSumRows(args.partials, layout.parts, args.sizes.channels * (args.sizes.width + 1),
                       args.d_weights, stream);
}

}  // namespace mixerbench::kernels::fused
