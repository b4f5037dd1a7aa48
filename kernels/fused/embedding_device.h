// Device functions of embedding.h on raw pointers. embedding.cu and embedding_backward.cu define
// them; device_stub.cc does in builds without CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/fused/element.h"
#include "kernels/fused/keyed_dropout.h"

struct CUstream_st;

namespace mixerbench::kernels::fused {

// Token ids, int32 or int64.
struct TokenIds {
  const void* data = nullptr;
  bool is_int64 = false;
};

struct EmbeddingForward {
  TokenIds tokens;
  long long num_tokens = 0;  // B * T
  int seq_len = 0;           // T
  int vocab_size = 0;
  int width = 0;                     // a multiple of 8
  const float* table = nullptr;      // [vocab_size, width]
  const float* positions = nullptr;  // [T, width]; nullptr: none
  DropoutRule dropout;
  const std::int64_t* seed = nullptr;  // on the device; read when something is dropped
  void* out = nullptr;                 // [num_tokens, width]
  Element out_element = Element::kFloat;
};

struct EmbeddingBackward {
  TokenIds tokens;
  long long num_tokens = 0;
  int seq_len = 0;
  int vocab_size = 0;
  int width = 0;
  DropoutRule dropout;
  const std::int64_t* seed = nullptr;
  const void* d_out = nullptr;  // [num_tokens, width]
  Element d_out_element = Element::kFloat;
  float* d_table = nullptr;         // [vocab_size, width]; nullptr: not wanted
  float* d_positions = nullptr;     // [T, width]; nullptr: not wanted
  std::int32_t* indices = nullptr;  // scratch of EmbeddingScratch().indices
  float* partials = nullptr;        // scratch of EmbeddingScratch().floats
};

struct EmbeddingScratchSizes {
  long long indices = 0;
  long long floats = 0;
};
EmbeddingScratchSizes EmbeddingScratch(long long num_tokens, int vocab_size, int width);

constexpr int kMaxEmbeddingVocabulary = 40'000;  // its histogram fits in a block's shared memory

constexpr bool EmbeddingSupports(long long num_tokens, long long vocab_size, long long width) {
  return num_tokens > 0 && num_tokens < (1LL << 31) && vocab_size <= kMaxEmbeddingVocabulary &&
         width >= 8 && width <= 512 && width % 8 == 0;
}

// Queue the work; return the CUDA error code of the launch. A token outside the vocabulary stops
// the kernel, as ATen's own embedding does.
int LaunchEmbeddingForward(const EmbeddingForward& args, CUstream_st* stream);
int LaunchEmbeddingBackward(const EmbeddingBackward& args, CUstream_st* stream);

}  // namespace mixerbench::kernels::fused
