// RESONA: beside a mixer, each token reads a few earlier chunks that it searches for. Maths and
// sources: resona.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/value.h"

namespace mixerbench::models {

// What the queries are formed from.
enum class QuerySource {
  kPreviousOutput,  // of the mixer in the layer before; in the first layer the embeddings
  kThisOutput,      // of the mixer that is held
  kEmbeddings,
};

// What the chunks and their keys and values are formed from.
enum class MemorySource { kEmbeddings, kLayerInput };

// What the choice of chunks leaves to the encoder's gradient.
enum class SearchGradient {
  kNone,             // nothing: there is no encoder
  kGate,             // values are weighted by the probability of their chunk
  kStraightThrough,  // forward as kNone, backward as kGate
};

// What a token gets that has no complete chunk before it.
enum class EmptyRetrieval {
  kInner,   // the output of the mixer
  kScaled,  // alpha times it
};

struct ResonaConfig {
  Value inner = Object{{"name", "gla"}};
  std::int64_t chunk_size = 2;
  std::int64_t top_k = 1;      // chunks that a token reads
  std::int64_t num_heads = 4;  // of the attention to their tokens
  std::int64_t head_dim = 0;   // 0: d_model / num_heads
  std::int64_t embed_dim = 0;  // of what is searched; 0: d_model
  bool shared_encoder = true;  // one encoder for chunks and queries
  QuerySource query_source = QuerySource::kPreviousOutput;
  MemorySource memory_source = MemorySource::kEmbeddings;
  SearchGradient search_gradient = SearchGradient::kStraightThrough;
  double temperature = 0.1;  // of the probabilities of chunks
  double alpha = 0.5;        // share of the mixer's output
  bool input_alpha = false;  // the share depends on the token, starting at alpha
  EmptyRetrieval empty_retrieval = EmptyRetrieval::kInner;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::QuerySource> {
  using E = mixerbench::models::QuerySource;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kPreviousOutput, "previous_output"},
      {E::kThisOutput, "this_output"},
      {E::kEmbeddings, "embeddings"}};
};

template <>
struct mixerbench::EnumNames<mixerbench::models::MemorySource> {
  using E = mixerbench::models::MemorySource;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kEmbeddings, "embeddings"},
                                                              {E::kLayerInput, "layer_input"}};
};

template <>
struct mixerbench::EnumNames<mixerbench::models::SearchGradient> {
  using E = mixerbench::models::SearchGradient;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kNone, "none"}, {E::kGate, "gate"}, {E::kStraightThrough, "straight_through"}};
};

template <>
struct mixerbench::EnumNames<mixerbench::models::EmptyRetrieval> {
  using E = mixerbench::models::EmptyRetrieval;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kInner, "inner"},
                                                              {E::kScaled, "scaled"}};
};
