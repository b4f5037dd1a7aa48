// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/residual_layers.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include "kernels/layout/rows.h"
#include "models/blocks/dropout.h"
#include "models/blocks/embedding.h"
#include "models/blocks/norms.h"

namespace mixerbench::models {
namespace {

constexpr double kNormEps = 1e-5;

}  // namespace

ResidualLayers::ResidualLayers(const ResidualLayersConfig& config, const std::string& where,
                               const BackboneContext& context, ParameterSet& parameters)
    : config_(config),
      table_(ParameterScope(parameters, "embedding.")
                 .Add("weight", {config.vocab_size, config.d_model}, ParameterRole::kEmbedding,
                      Init::Normal(1))),
      shadow_table_(ParameterScope(parameters, "embedding.").Shadow("weight")),
      ones_(at::ones({config.d_model}, ParameterScope(parameters).special_options())),
      mixers_(config.sequence_mixer, where + "/sequence_mixer", context, config.d_model,
              config.n_layers, parameters, {.config = config.channel_mixer}) {
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    const ParameterScope scope = LayerScope(parameters, layer);
    norms_.push_back(MakeNorm(config.norm, scope.Child("norm")));
    if (config.channel_mixer.kind == ChannelMixerKind::kIdentity) continue;
    channel_norms_.push_back(MakeNorm(config.norm, scope.Child("channel_norm")));
  }
  final_norm_ = MakeNorm(config.final_norm, ParameterScope(parameters, "final_norm."));
}

ResidualLayers::NormWeights ResidualLayers::MakeNorm(StreamNorm norm,
                                                     const ParameterScope& scope) const {
  switch (norm) {
    case StreamNorm::kRms:
      return kernels::Norm{.weight = RmsNorm(scope, config_.d_model, kNormEps).weight(),
                           .eps = kNormEps};
    case StreamNorm::kLayer:
      return LayerNorm(scope, config_.d_model, kNormEps).parameters();
    case StreamNorm::kNone:
      return std::nullopt;
  }
  return std::nullopt;
}

at::ScalarType ResidualLayers::StreamDtype(const BackboneOptions& options) const {
  if (!config_.fp32_stream) return options.compute_dtype;
  return c10::promoteTypes(options.compute_dtype, at::kFloat);
}

ResidualLayers::Step ResidualLayers::Start(const at::Tensor& tokens, const BackboneOptions& options,
                                           at::Tensor& table) const {
  BackboneOptions wide = options;
  wide.compute_dtype = StreamDtype(options);
  const NormWeights& norm = norms_.front();
  const auto embedded = Embed(table_, tokens, /*positions=*/{}, /*dropout=*/0,
                              norm.value_or(kernels::Norm{.weight = ones_}), wide);
  table = embedded.table;
  return {embedded.stream,
          (norm ? embedded.normalised : embedded.stream).to(options.compute_dtype)};
}

ResidualLayers::Step ResidualLayers::Join(const at::Tensor& stream, const at::Tensor& added,
                                          const NormWeights& norm,
                                          const kernels::ScoredPositions* scored,
                                          const BackboneOptions& options) const {
  const at::Tensor branch =
      Dropout(added, config_.dropout, options.generator).to(stream.scalar_type());
  if (norm) {
    const auto joined = kernels::ResidualNorm(
        {.residual = stream, .added = branch, .norm = *norm, .scored = scored}, options.path);
    return {joined.residual, joined.normalised.to(options.compute_dtype)};
  }
  const at::Tensor sum = stream + branch;
  return {scored != nullptr ? kernels::GatherRows(sum, *scored, options.path) : sum,
          sum.to(options.compute_dtype)};
}

ResidualLayers::Result ResidualLayers::operator()(const at::Tensor& tokens,
                                                  const BackboneOptions& options,
                                                  BackboneOutput& output) const {
  Result result;
  Step step = Start(tokens, options, result.table);
  MixerLayers::Pass mixers(mixers_, options, step.stream, output);
  at::Tensor added;
  for (std::int64_t layer = 0; layer < mixers_.size(); ++layer) {
    const auto index = static_cast<std::size_t>(layer);
    // Where a mixer selects tokens, the stream needs no others either.
    const auto* scored = mixers.ScoredOfNext();
    if (layer > 0) {
      step = Join(step.stream, added, norms_[index], scored, options);
    } else if (scored != nullptr) {
      step.stream = kernels::GatherRows(step.stream, *scored, options.path);
    }
    added = mixers.Next(step.normalised);
    if (channel_norms_.empty()) continue;
    step = Join(step.stream, added, channel_norms_[index], mixers.ScoredOfNextChannels(), options);
    added = mixers.NextChannels(step.normalised);
  }
  result.hidden = Join(step.stream, added, final_norm_, nullptr, options).normalised;
  return result;
}

}  // namespace mixerbench::models
