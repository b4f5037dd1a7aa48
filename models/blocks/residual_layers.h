// The body of a language model without positions: tokens, then pre-norm residual layers, each a
// mixer over time and, if wanted, one over channels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "base/value.h"
#include "kernels/layout/scored_positions.h"
#include "kernels/norm/residual_norm.h"
#include "models/backbone.h"
#include "models/blocks/channel_mixer.h"
#include "models/blocks/mixer_layers.h"
#include "models/parameters.h"

namespace mixerbench::models {

enum class StreamNorm { kRms, kLayer, kNone };

struct ResidualLayersConfig {
  std::int64_t vocab_size = 0;  // rows of the embedding
  std::int64_t d_model = 0;
  std::int64_t n_layers = 0;
  Value sequence_mixer = {};
  ChannelMixerConfig channel_mixer = {};  // after every mixer; identity: none, nor its norm
  StreamNorm norm = StreamNorm::kRms;     // before each of them, eps 1e-5
  StreamNorm final_norm = StreamNorm::kRms;
  bool fp32_stream = false;  // the residual stream in fp32; else in the compute dtype
  double dropout = 0;        // of what joins the stream, in training
};

class ResidualLayers {
 public:
  // Parameters "embedding.weight", "layers.<i>.norm", ".mixer", ".channel_norm", ".channel_mixer",
  // "final_norm".
  ResidualLayers(const ResidualLayersConfig& config, const std::string& where,
                 const BackboneContext& context, ParameterSet& parameters);

  struct Result {
    // x_0 the embedding; x <- x + mixer(norm(x)), x <- x + channel_mixer(norm(x)) layer by layer:
    // final_norm(x). [B,T,D], [M,D] of options.scored; compute dtype.
    at::Tensor hidden;
    at::Tensor table;  // the embedding again, for a head that shares it (kernels/embedding)
  };
  // tokens [B,T]. States and losses of the mixers go to `output`.
  Result operator()(const at::Tensor& tokens, const BackboneOptions& options,
                    BackboneOutput& output) const;

  const at::Tensor& table() const { return table_; }
  // Where a copy of the table in bf16 may be found (ParameterScope::Shadow).
  const at::Tensor& shadow_table() const { return *shadow_table_; }
  State InitialState(std::int64_t batch_size) const { return mixers_.InitialState(batch_size); }
  std::map<std::string, double> losses() const { return mixers_.losses(); }

 private:
  using NormWeights = std::optional<kernels::Norm>;  // none: no norm
  struct Step {
    at::Tensor stream;      // dtype of the stream
    at::Tensor normalised;  // compute dtype
  };

  NormWeights MakeNorm(StreamNorm norm, const ParameterScope& scope) const;
  // `table` becomes Result::table.
  Step Start(const at::Tensor& tokens, const BackboneOptions& options, at::Tensor& table) const;
  // Of the new stream only the scored positions are kept; nullptr: all.
  Step Join(const at::Tensor& stream, const at::Tensor& added, const NormWeights& norm,
            const kernels::ScoredPositions* scored, const BackboneOptions& options) const;
  at::ScalarType StreamDtype(const BackboneOptions& options) const;

  ResidualLayersConfig config_;
  at::Tensor table_;  // [vocab_size, D]
  std::shared_ptr<const at::Tensor> shadow_table_;
  at::Tensor ones_;  // [D]: the weight of a norm whose result nobody reads
  MixerLayers mixers_;
  std::vector<NormWeights> norms_;
  std::vector<NormWeights> channel_norms_;
  NormWeights final_norm_;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::StreamNorm> {
  using E = mixerbench::models::StreamNorm;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kRms, "rms"}, {E::kLayer, "layer"}, {E::kNone, "none"}};
};
