// Device functions of embedding.h on raw pointers. embedding.cu and embedding_backward.cu define
// them; device_stub.cc does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device/element.h"
#include "kernels/noise/keyed_dropout.h"
#include "kernels/norm/residual_norm_cuda.h"

struct CUstream_st;

namespace mixerbench::kernels {

// Token ids, int32 or int64.
struct TokenIds {
  const void* data = nullptr;
  bool is_int64 = false;
};

struct EmbeddingSizes {
  long long num_tokens = 0;  // B * T
  int seq_len = 0;           // T
  int vocab_size = 0;
  int width = 0;
};

// Mean and scale of a row's norm.
constexpr int kEmbeddingStatistics = 2;

// A mask of the dropout: a bit for each element, set where it is kept; whole words.
constexpr long long EmbeddingMaskBytes(const EmbeddingSizes& sizes) {
  return (sizes.num_tokens * (sizes.width / 8) + 3) / 4 * 4;
}

struct EmbeddingForward {
  EmbeddingSizes sizes;
  TokenIds tokens;
  const float* table = nullptr;      // [vocab_size, width]
  const float* positions = nullptr;  // [T, width]; nullptr: none
  DropoutRule dropout;
  const std::int64_t* seed = nullptr;  // on the device; read when something is dropped
  NormWeights norm;
  Element element = Element::kFloat;  // of `stream` and `normalised`
  void* stream = nullptr;             // [num_tokens, width]
  void* normalised = nullptr;         // [num_tokens, width]
  // For the backward pass, nullptr: not wanted.
  std::uint8_t* kept = nullptr;  // EmbeddingMaskBytes(sizes)
  float* statistics = nullptr;   // [num_tokens, kEmbeddingStatistics]
};

struct EmbeddingBackward {
  EmbeddingSizes sizes;
  TokenIds tokens;
  float dropout_scale = 1;
  const std::uint8_t* kept = nullptr;  // nullptr: nothing was dropped
  NormWeights norm;
  Element element = Element::kFloat;  // of all rows
  const void* stream = nullptr;
  const float* statistics = nullptr;
  ConstRows d_stream;               // absent: zero
  ConstRows d_normalised;           // absent: zero
  const float* d_shared = nullptr;  // [vocab_size, width], what d_table is added to; nullptr: zero
  float* d_table = nullptr;         // [vocab_size, width]
  float* d_positions = nullptr;     // [T, width]; nullptr: not wanted
  float* d_weights = nullptr;       // [2, width]: gradients of norm.weight and norm.bias
  void* d_embedded = nullptr;       // scratch [num_tokens, width] when d_positions is wanted
  // Scratch of EmbeddingScratch().indices that the kernel queued before does not touch, nor does it
  // make the tokens: the sort begins while that one still runs.
  std::int32_t* indices = nullptr;
  float* partials = nullptr;  // scratch of EmbeddingScratch().floats
};

struct EmbeddingScratchSizes {
  long long indices = 0;
  long long floats = 0;
};
EmbeddingScratchSizes EmbeddingScratch(const EmbeddingSizes& sizes);

constexpr int kMaxEmbeddingVocabulary = 40'000;  // its histogram fits in a block's shared memory

constexpr bool EmbeddingSupports(long long num_tokens, long long vocab_size, long long width) {
  return num_tokens > 0 && vocab_size <= kMaxEmbeddingVocabulary &&
         ResidualNormSupports(num_tokens, width);
}

// Queue the work; return the CUDA error code of the launch. A token outside the vocabulary stops
// the kernel, as ATen's own embedding does.
int LaunchEmbeddingForward(const EmbeddingForward& args, CUstream_st* stream);
int LaunchEmbeddingBackward(const EmbeddingBackward& args, CUstream_st* stream);

}  // namespace mixerbench::kernels
