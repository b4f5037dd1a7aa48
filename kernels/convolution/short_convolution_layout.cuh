// Which channels and tokens the threads of the short convolution work on.
//
// A thread owns eight neighbouring channels and scans a span of tokens with the last inputs in
// registers; the lanes of a head are neighbours in one warp and its norm is a sum over them. Blocks
// scan the tokens from the end, because what the product before wrote last is still in the cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kernels/convolution/short_convolution_cuda.h"
#include "kernels/device/vector_io.cuh"

namespace mixerbench::kernels::short_convolution {

constexpr int kThreads = 64;
constexpr int kTogether = 4;   // tokens of a pass of a loop: windows return to their registers
constexpr int kMaxGroup = 16;  // threads for channels of one token: a head of 128
constexpr int kMaxSpan = 128;  // tokens of a thread
constexpr int kTaps = kMaxShortConvolutionWidth;
static_assert(kMaxGroup * kVector == kMaxShortConvolutionNorm);

constexpr int CeilDiv(long long x, long long unit) {
  return static_cast<int>((x + unit - 1) / unit);
}

// How the threads of a block share channels; a function of the sizes alone.
struct ChannelLayout {
  int group_threads;   // threads that hold channels of one token, whole heads of them
  int channel_blocks;  // blocks for all channels
  int block_spans;     // spans of a block

  explicit ChannelLayout(const ShortConvolutionSizes& sizes) {
    const int head = sizes.norm_channels > 0 ? sizes.norm_dim / kVector : 1;
    const int all = sizes.channels / kVector;
    group_threads = CeilDiv(CeilDiv(all, CeilDiv(all, kMaxGroup)), head) * head;
    channel_blocks = CeilDiv(all, group_threads);
    block_spans = kThreads / group_threads;
  }
};

// How threads share the work; a function of the sizes alone.
struct Layout : ChannelLayout {
  int span;   // tokens of a thread, whole passes
  int spans;  // of a sequence
  int parts;  // blocks for all tokens

  // Long spans repeat less work at their ends, short ones make more blocks: about `num_blocks`.
  Layout(const ShortConvolutionSizes& sizes, int num_blocks) : ChannelLayout(sizes) {
    constexpr int kMinSpan = 16;
    const long long wanted =
        static_cast<long long>(num_blocks) * block_spans / (channel_blocks * sizes.batch_size);
    spans = static_cast<int>(std::clamp<long long>(wanted, CeilDiv(sizes.seq_len, kMaxSpan),
                                                   CeilDiv(sizes.seq_len, kMinSpan)));
    span = CeilDiv(CeilDiv(sizes.seq_len, spans), kTogether) * kTogether;
    spans = CeilDiv(sizes.seq_len, span);
    parts = CeilDiv(sizes.batch_size * spans, block_spans);
  }

  unsigned blocks() const { return static_cast<unsigned>(parts * channel_blocks); }
};

// A span of tokens.
struct Span {
  long long row0;   // row of token 0 of the sequence
  int first, last;  // tokens; none past the last sequence

  __device__ Span(const ShortConvolutionSizes& sizes, const Layout& layout, int part,
                  int in_block) {
    const int index = part * layout.block_spans + in_block;
    const int sequence = index / layout.spans;
    row0 = static_cast<long long>(sequence) * sizes.seq_len;
    first = (index - sequence * layout.spans) * layout.span;
    last = sequence < sizes.batch_size ? min(first + layout.span, sizes.seq_len) : first;
  }
};

// Which channels a thread works on, and which part of the tokens its block does.
struct ChannelShare {
  int part;
  int first_channel;  // of the block
  int in_block;       // the thread's span in the block
  int channel;        // the first of eight
  bool normalised;    // its channels belong to a normalised head
  int head_lanes;

  __device__ ChannelShare(const ShortConvolutionSizes& sizes, const ChannelLayout& layout,
                          int parts)
      : part(parts - 1 - static_cast<int>(blockIdx.x) / layout.channel_blocks),
        // Turned from part to part: else a multiprocessor may get normalised channels alone.
        first_channel((static_cast<int>(blockIdx.x) + part) % layout.channel_blocks *
                      layout.group_threads * kVector),
        in_block(static_cast<int>(threadIdx.x) / layout.group_threads),
        channel(first_channel + static_cast<int>(threadIdx.x) % layout.group_threads * kVector),
        normalised(channel < sizes.norm_channels),
        head_lanes(sizes.norm_channels > 0 ? sizes.norm_dim / kVector : 1) {}
};

// Which channels and tokens a thread works on.
struct Share : ChannelShare {
  Span span;
  bool active;  // it has work

  __device__ Share(const ShortConvolutionSizes& sizes, const Layout& layout)
      : ChannelShare(sizes, layout, layout.parts),
        span(sizes, layout, part, in_block),
        active(in_block < layout.block_spans && channel < sizes.channels &&
               span.first < span.last) {}

  // Tokens of the span; 0 for a thread without work.
  __device__ int count() const { return active ? span.last - span.first : 0; }
};

// How spans lie: sequences one after the other, each with zeros after it, kTaps - 1 or more up to a
// whole pass. These clear windows and sums, so that a span may go from one sequence on to the next
// and is as long as a wave of blocks needs.
struct PassLayout : ChannelLayout {
  int padded;  // tokens of a sequence with its zeros
  int passes;  // of all sequences
  int span;    // passes of a thread
  int parts;   // blocks for all passes

  PassLayout(const ShortConvolutionSizes& sizes, int num_blocks) : ChannelLayout(sizes) {
    constexpr int kMinSpan = 4;
    const int of_sequence = CeilDiv(sizes.seq_len + kTaps - 1, kTogether);
    padded = of_sequence * kTogether;
    passes = static_cast<int>(sizes.batch_size * of_sequence);
    const int spans = std::max(1, num_blocks / channel_blocks) * block_spans;
    span = std::clamp(CeilDiv(passes, spans), kMinSpan, kMaxSpan / kTogether);
    parts = CeilDiv(CeilDiv(passes, span), block_spans);
  }

  unsigned blocks() const { return static_cast<unsigned>(parts * channel_blocks); }
};

// Where a thread is in the sequences, by passes.
struct Place {
  int t;           // token of the sequence, or of the zeros after it
  int left;        // passes of the span from here on
  long long row0;  // of the sequence

  __device__ Place(const ShortConvolutionSizes& sizes, const PassLayout& layout,
                   const ChannelShare& share) {
    const int first = (share.part * layout.block_spans + share.in_block) * layout.span;
    const bool active = share.in_block < layout.block_spans && share.channel < sizes.channels &&
                        first < layout.passes;
    const int of_sequence = layout.padded / kTogether;
    const int sequence = active ? first / of_sequence : 0;
    t = active ? (first - sequence * of_sequence) * kTogether : 0;
    left = active ? min(layout.span, layout.passes - first) : 0;
    row0 = static_cast<long long>(sequence) * sizes.seq_len;
  }

  template <typename T>
  __device__ T* At(T* data, long long stride, int channel) const {
    return data + (row0 + t) * stride + channel;
  }

  // Tokens from here on that exist and are needed: after the span, those whose outputs depend on
  // its inputs.
  __device__ int Needed(int seq_len) const {
    if (left > 0) return seq_len - t;
    return left == 0 && t > 0 ? min(seq_len - t, kTaps - 1) : 0;
  }

  // Moves on by a pass; that many rows.
  __device__ int Advance(int seq_len, int padded) {
    --left;
    t += kTogether;
    if (t < padded) return kTogether;
    t = 0;
    return kTogether - (padded - seq_len);
  }
};

}  // namespace mixerbench::kernels::short_convolution
