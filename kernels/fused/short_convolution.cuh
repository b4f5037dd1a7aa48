// What the two directions of the short convolution share: who works on what, and how inputs come.
//
// A thread owns four neighbouring channels and walks a span of tokens with the last inputs in
// registers; the lanes of a head are neighbours in one warp and its norm is a sum over them. Blocks
// walk the tokens from the end, because what the product before wrote last is still in the cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include <cuda_bf16.h>

#include "kernels/fused/fast_math.cuh"
#include "kernels/fused/short_convolution_device.h"

namespace mixerbench::kernels::fused::short_convolution {

constexpr int kMaxThreads = 128;
constexpr int kChannels = 4;  // of a thread
constexpr int kTogether = 4;  // tokens of a pass of a loop: windows return to their registers

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

__device__ inline void CommitToken() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until no more than so many tokens are in flight.
template <int kTokens>
__device__ inline void AwaitToken() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kTokens) : "memory");
}

template <typename T>
__device__ inline T* At(const Share& share, const Rows& rows, int t) {
  return static_cast<T*>(rows.data) + (share.row0 + t) * rows.stride + share.channel;
}

// The inputs before the share; zeros before the sequence.
template <typename T, int kWidth>
__device__ inline Window<kWidth> WindowBefore(const Share& share, const ConstRows& x) {
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

// Sum over the lanes of a head.
__device__ inline float HeadSum(const Share& share, float x) {
  constexpr int kMaxLanes = kMaxShortConvolutionNorm / kChannels;
  return ScaledGroupSum<kMaxLanes>(x, share.head_lanes) * GroupScale<kMaxLanes>(share.head_lanes);
}

__device__ inline float Dot(const Four& a, const Four& b) {
  float sum = a.x[0] * b.x[0];
#pragma unroll
  for (int c = 1; c < kChannels; ++c) sum += a.x[c] * b.x[c];
  return sum;
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

}  // namespace mixerbench::kernels::fused::short_convolution
