// SPDX-License-Identifier: Apache-2.0
#include "models/backbones/zoology/zoology.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/full.h>

#include "base/check.h"
#include "base/fields.h"
#include "kernels/norm/residual_norm.h"
#include "models/backbone_entry.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dropout.h"
#include "models/blocks/embedding.h"
#include "models/blocks/mixer_layers.h"
#include "models/blocks/norms.h"

namespace mixerbench::models::zoology {
namespace {

constexpr double kNormEps = 1e-5;

const Fields<ZoologyConfig>& ConfigFields() {
  using Config = ZoologyConfig;
  static const auto fields =
      Fields<Config>()
          .Add("d_model", &Config::d_model, "width of the residual stream")
          .Add("n_layers", &Config::n_layers, "blocks")
          .Add("sequence_mixer", &Config::sequence_mixer, "mixer over time of every block")
          .Add("state_mixer", &Config::state_mixer, "mixer over channels of every block")
          .Add("state_mixer_expand", &Config::state_mixer_expand,
               "inner width of the state mixer per channel of d_model")
          .Add("positions", &Config::positions, "embedding added to the tokens")
          .Add("embed_dropout", &Config::embed_dropout, "of the embedding, in training")
          .Add("resid_dropout", &Config::resid_dropout,
               "of what is added to the residual stream, in training");
  return fields;
}

class Zoology final : public Backbone {
 public:
  Zoology(const ZoologyConfig& config, const std::string& where, const BackboneContext& context,
          ParameterSet& parameters)
      : config_(config),
        embedding_(ParameterScope(parameters, "embedding.")
                       .Add("weight", {context.vocab_size, config.d_model},
                            ParameterRole::kEmbedding, Init::Normal(1))),
        shadow_embedding_(ParameterScope(parameters, "embedding.").Shadow("weight")),
        mixers_(config.sequence_mixer, where + "/sequence_mixer", context, config.d_model,
                config.n_layers, parameters, ChannelMixersOf(config)),
        final_norm_(ParameterScope(parameters, "final_norm."), config.d_model, kNormEps) {
    if (config.positions == Positions::kLearned) {
      positions_ = ParameterScope(parameters, "positions.")
                       .Add("weight", {context.max_seq_len, config.d_model},
                            ParameterRole::kEmbedding, Init::Normal(1));
    }
    for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
      const ParameterScope scope = LayerScope(parameters, layer);
      blocks_.push_back({LayerNorm(scope.Child("norm1"), config.d_model, kNormEps),
                         LayerNorm(scope.Child("norm2"), config.d_model, kNormEps)});
    }
  }

  BackboneOutput Forward(const at::Tensor& tokens, const BackboneOptions& options) const override {
    BackboneOutput output;
    const bool has_dropout = options.generator && config_.resid_dropout > 0;
    const auto dropout = [&](const at::Tensor& x) {
      return Dropout(x, config_.resid_dropout, options.generator);
    };
    // `added` joins the stream at the start of the next block, as in the original. With an identity
    // state mixer a block ends in residual + norm2(residual), which is left to the norm that
    // follows as its `mid`, unless a dropout comes between.
    const bool identity = config_.state_mixer == ChannelMixerKind::kIdentity;
    const bool fuse_identity = identity && !has_dropout;
    const auto embedded = Embed(embedding_, tokens, TakePositions(tokens.size(1), options),
                                config_.embed_dropout, blocks_.front().norm1.parameters(), options);
    const at::Tensor embeddings = EmbeddingsForMixers(tokens, embedded.stream, options);
    MixerLayers::Pass mixers(mixers_, options, embeddings, output);
    at::Tensor residual = embedded.stream;
    at::Tensor added;
    std::optional<kernels::Norm> mid;
    const auto join = [&](const LayerNorm& norm, const kernels::ScoredPositions* scored = nullptr) {
      const auto joined = kernels::ResidualNorm({.residual = residual,
                                                 .added = added,
                                                 .mid = mid,
                                                 .norm = norm.parameters(),
                                                 .scored = scored},
                                                options.path);
      residual = joined.residual;
      mid.reset();
      return joined.normalised;
    };
    for (std::int64_t layer = 0; layer < mixers_.size(); ++layer) {
      const Block& block = blocks_[static_cast<std::size_t>(layer)];
      // Where a mixer answers for the scored positions alone, the stream needs no others either.
      const auto* scored = mixers.ScoredOfNext();
      const at::Tensor x = layer == 0 ? embedded.normalised : join(block.norm1, scored);
      if (layer == 0 && scored != nullptr) {
        residual = kernels::GatherRows(residual, *scored, options.path);
      }
      added = dropout(mixers.Next(x));
      if (fuse_identity) {
        mid = block.norm2.parameters();
      } else {
        added = dropout(mixers.NextChannels(join(block.norm2, mixers.ScoredOfNextChannels())));
      }
    }
    output.hidden = join(final_norm_);
    output.head = head();
    output.head.weight = embedded.table;
    if (options.want_final_state && positions_.defined()) {
      output.final_state.tensors["position"] = Position(FirstPosition(options) + tokens.size(1));
    }
    return output;
  }

  Head head() const override {
    return {.weight = embedding_, .bias = {}, .narrow = {.weight = *shadow_embedding_}};
  }

  State InitialState(std::int64_t batch_size) const override {
    State state = mixers_.InitialState(batch_size);
    if (positions_.defined()) state.tensors["position"] = Position(0);
    return state;
  }

  std::map<std::string, double> losses() const override { return mixers_.losses(); }

 private:
  struct Block {
    LayerNorm norm1;
    LayerNorm norm2;
  };

  static ChannelMixers ChannelMixersOf(const ZoologyConfig& config) {
    return {.name = "state_mixer",
            .config = {.kind = config.state_mixer,
                       .inner_dim = config.state_mixer_expand * config.d_model,
                       .bias = true}};
  }

  static StateTensor Position(std::int64_t position) {
    return {at::full({}, position, at::TensorOptions(at::kLong)), StateKind::kPosition};
  }

  static std::int64_t FirstPosition(const BackboneOptions& options) {
    if (options.initial_state == nullptr) return 0;
    return Find(options.initial_state, "position").item<std::int64_t>();
  }

  // What mixers that read embeddings get [B,T,D]: the rows of the table, which the stream starts
  // with but for positions and dropout. Looked up again only where these make a difference to a
  // mixer.
  at::Tensor EmbeddingsForMixers(const at::Tensor& tokens, const at::Tensor& stream,
                                 const BackboneOptions& options) const {
    const bool is_dropped = options.generator && config_.embed_dropout > 0;
    if (!mixers_.reads_embeddings() || (!positions_.defined() && !is_dropped)) return stream;
    return Embed(embedding_, tokens, /*positions=*/{}, /*dropout=*/0,
                 blocks_.front().norm1.parameters(), options)
        .stream;
  }

  // Undefined without learned positions.
  at::Tensor TakePositions(std::int64_t seq_len, const BackboneOptions& options) const {
    if (!positions_.defined()) return {};
    const std::int64_t first = FirstPosition(options);
    Require(first + seq_len <= positions_.size(0),
            "there are " + std::to_string(positions_.size(0)) +
                " learned positions, the input has " + std::to_string(first + seq_len));
    return positions_.narrow(0, first, seq_len);
  }

  ZoologyConfig config_;
  at::Tensor embedding_;  // [vocab_size, D], also the head
  std::shared_ptr<const at::Tensor> shadow_embedding_;
  at::Tensor positions_;  // [max_seq_len, D]; undefined without
  MixerLayers mixers_;
  std::vector<Block> blocks_;
  LayerNorm final_norm_;
};

ZoologyConfig Parse(const Value& config, const std::string& where) {
  const ZoologyConfig parsed = ConfigFields().Parse(config, where);
  CheckRange(parsed.d_model, 1, 1 << 16, where, "d_model");
  CheckRange(parsed.n_layers, 1, 1024, where, "n_layers");
  CheckRange(parsed.state_mixer_expand, 1, 64, where, "state_mixer_expand");
  CheckDropout(parsed.embed_dropout, where, "embed_dropout");
  CheckDropout(parsed.resid_dropout, where, "resid_dropout");
  return parsed;
}

}  // namespace

void Register(BackboneRegistry& registry) {
  BackboneEntry entry = MakeBackboneEntry(ConfigFields(), Parse, kMakeBackbone<Zoology>);
  entry.summary = "zoology's language model: pre-norm blocks, tied head";
  entry.source = "arXiv 2312.04927; HazyResearch/zoology d88d6f5";
  entry.init_policy = [](const Value&) { return InitPolicy::kZoology; };
  entry.test_configs = {
      Object{{"d_model", 16},
             {"n_layers", 3},
             {"positions", "learned"},
             {"state_mixer", "mlp"},
             {"state_mixer_expand", 2},
             {"embed_dropout", 0.2},
             {"resid_dropout", 0.3},
             {"sequence_mixer", Object{{"name", "hybrid"}}}},
      Object{{"d_model", 16},
             {"n_layers", 1},
             {"state_mixer", "swiglu"},
             {"sequence_mixer", Object{{"name", "gated_delta_net"}}}},
      Object{{"d_model", 16},
             {"n_layers", 3},
             {"state_mixer", "rwkv7"},
             {"sequence_mixer", Object{{"name", "rwkv7"}}}},
  };
  registry.Add("zoology", std::move(entry));
}

}  // namespace mixerbench::models::zoology
