// Which channels and tokens the threads of the short convolution work on.
//
// A thread owns eight neighbouring channels and walks a span of tokens with the last inputs in
// registers; the lanes of a head are neighbours in one warp and its norm is a sum over them. Blocks
// walk the tokens from the end, because what the product before wrote last is still in the cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kernels/fused/short_convolution_device.h"
#include "kernels/fused/vector_io.cuh"

namespace mixerbench::kernels::fused::short_convolution {

constexpr int kThreads = 64;
constexpr int kTogether = 4;   // tokens of a pass of a loop: windows return to their registers
constexpr int kMaxGroup = 16;  // threads for channels of one token: a head of 128
constexpr int kMaxSpan = 128;  // tokens of a thread
constexpr int kTaps = kMaxShortConvolutionWidth;
static_assert(kMaxGroup * kVector == kMaxShortConvolutionNorm);

// How threads share the work; a function of the sizes alone.
struct Layout {
  int group_threads;   // threads that hold channels of one token, whole heads of them
  int channel_blocks;  // blocks for all channels
  int span;            // tokens of a thread, whole passes
  int spans;           // of a sequence
  int block_spans;     // spans of a block
  int parts;           // blocks for all tokens

  // Long spans repeat less work at their ends, short ones make more blocks: about `num_blocks`.
  Layout(const ShortConvolutionSizes& sizes, int num_blocks) {
    const int head = sizes.norm_channels > 0 ? sizes.norm_dim / kVector : 1;
    const int all = sizes.channels / kVector;
    group_threads = CeilDiv(CeilDiv(all, CeilDiv(all, kMaxGroup)), head) * head;
    channel_blocks = CeilDiv(all, group_threads);
    block_spans = kThreads / group_threads;
    constexpr int kMinSpan = 16;
    const long long wanted =
        static_cast<long long>(num_blocks) * block_spans / (channel_blocks * sizes.batch_size);
    spans = static_cast<int>(std::clamp<long long>(wanted, CeilDiv(sizes.seq_len, kMaxSpan),
                                                   CeilDiv(sizes.seq_len, kMinSpan)));
    span = CeilDiv(CeilDiv(sizes.seq_len, spans), kTogether) * kTogether;
    spans = CeilDiv(sizes.seq_len, span);
    parts = static_cast<int>((sizes.batch_size * spans + block_spans - 1) / block_spans);
  }

  unsigned blocks() const { return static_cast<unsigned>(parts * channel_blocks); }

 private:
  static constexpr int CeilDiv(int x, int unit) { return (x + unit - 1) / unit; }
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

// Which channels and tokens a thread works on.
struct Share {
  int part;           // of the tokens, of the block
  int first_channel;  // of the block
  int in_block;       // its span
  int channel;        // the first of eight
  bool normalised;    // its channels belong to a normalised head
  int head_lanes;
  Span span;
  bool active;  // it has work

  __device__ Share(const ShortConvolutionSizes& sizes, const Layout& layout)
      : part(layout.parts - 1 - static_cast<int>(blockIdx.x) / layout.channel_blocks),
        // Turned from part to part: else a multiprocessor may get normalised channels alone.
        first_channel((static_cast<int>(blockIdx.x) + part) % layout.channel_blocks *
                      layout.group_threads * kVector),
        in_block(static_cast<int>(threadIdx.x) / layout.group_threads),
        channel(first_channel + static_cast<int>(threadIdx.x) % layout.group_threads * kVector),
        normalised(channel < sizes.norm_channels),
        head_lanes(sizes.norm_channels > 0 ? sizes.norm_dim / kVector : 1),
        span(sizes, layout, part, in_block),
        active(in_block < layout.block_spans && channel < sizes.channels &&
               span.first < span.last) {}

  // Tokens of the span; 0 for a thread without work.
  __device__ int count() const { return active ? span.last - span.first : 0; }
};

}  // namespace mixerbench::kernels::fused::short_convolution
