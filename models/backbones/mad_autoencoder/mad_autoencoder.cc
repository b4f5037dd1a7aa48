// SPDX-License-Identifier: Apache-2.0
#include "models/backbones/mad_autoencoder/mad_autoencoder.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>

#include "base/check.h"
#include "kernels/layout/rows.h"
#include "models/backbone_entry.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"
#include "models/blocks/norms.h"
#include "models/blocks/residual_layers.h"

namespace mixerbench::models::mad_autoencoder {
namespace {

constexpr double kNormEps = 1e-5;

const Fields<MadAutoencoderConfig>& ConfigFields() {
  using Config = MadAutoencoderConfig;
  static const auto fields =
      Fields<Config>()
          .Add("d_model", &Config::d_model, "width of the encoder, of the code and of the decoder")
          .Add("n_layers", &Config::n_layers,
               "of the encoder: pairs of a mixer over time and a mixer over channels")
          .Add("sequence_mixer", &Config::sequence_mixer, "mixer over time")
          .Add("channel_mixer", &Config::channel_mixer, "mixer over channels")
          .Add("channel_mixer_dim", &Config::channel_mixer_dim,
               "its inner width; 0: 4 d_model for mlp and rwkv7, 8/3 d_model in steps of 16 for "
               "swiglu, 7/2 d_model in steps of 32 for rwkv")
          .Add("global_pool", &Config::global_pool,
               "what the code is: the stream at the last token, or its mean over all")
          .Add("init_policy", &Config::init_policy, "how weights start");
  return fields;
}

// [T,D]: sines, then cosines of position times 10000^(-i/(D/2-1)).
at::Tensor PositionCodes(std::int64_t length, std::int64_t width,
                         const at::TensorOptions& options) {
  const std::int64_t half = width / 2;
  const auto doubles = options.dtype(at::kDouble);
  const double step = std::log(10000.0) / static_cast<double>(half > 1 ? half - 1 : 1);
  const at::Tensor frequencies = (at::arange(half, doubles) * -step).exp();
  const at::Tensor angles = at::arange(length, doubles).unsqueeze(1) * frequencies;
  return at::cat({angles.sin(), angles.cos()}, 1).to(options.dtype());
}

// The last token of each of `batch_size` sequences.
kernels::ScoredPositions LastTokens(std::int64_t batch_size, std::int64_t seq_len,
                                    at::Device device) {
  const auto indices = at::TensorOptions(at::kLong).device(device);
  const at::Tensor sequences = at::arange(batch_size, indices);
  // [B,T]: the entry of a last token is its sequence, of another token none.
  const at::Tensor inverse = at::cat(
      {at::full({batch_size, seq_len - 1}, batch_size, indices), sequences.unsqueeze(1)}, 1);
  return {.positions = sequences * seq_len + (seq_len - 1),
          .inverse = inverse.flatten(),
          .per_sequence = 1};
}

class MadAutoencoder final : public Backbone {
 public:
  MadAutoencoder(const MadAutoencoderConfig& config, const std::string& where,
                 const BackboneContext& context, ParameterSet& parameters)
      : global_pool_(config.global_pool),
        encoder_({.vocab_size = context.vocab_size,
                  .d_model = config.d_model,
                  .n_layers = config.n_layers,
                  .sequence_mixer = config.sequence_mixer,
                  .channel_mixer = MadChannelMixer(config.channel_mixer, config.channel_mixer_dim,
                                                   config.d_model),
                  .final_norm = StreamNorm::kNone,
                  .fp32_stream = true},
                 where, context, parameters),
        decoder_({Layer(parameters, "decoder.0.", config.d_model),
                  Layer(parameters, "decoder.1.", config.d_model)}),
        final_norm_(ParameterScope(parameters, "final_norm."), config.d_model, kNormEps),
        head_(ParameterScope(parameters, "head."), config.d_model, context.vocab_size,
              /*bias=*/true) {}

  BackboneOutput Forward(const at::Tensor& tokens, const BackboneOptions& options) const override {
    Require(options.initial_state == nullptr, "an auto-encoder reads its input in one call");
    BackboneOutput output;
    const at::Tensor code = Encode(tokens, options, output);  // [B,D]
    at::Tensor x = code.unsqueeze(1) +
                   PositionCodes(tokens.size(1), code.size(1), code.options().requires_grad(false));
    if (options.scored != nullptr) x = kernels::GatherRows(x, *options.scored, options.path);
    for (const DecoderLayer& layer : decoder_) {
      x = at::gelu(layer.linear(layer.norm(x), options.path));
    }
    output.hidden = final_norm_(x);
    output.head = head();
    return output;
  }

  Head head() const override {
    return {.weight = head_.weight(), .bias = head_.bias(), .narrow = head_.Narrow()};
  }

  State InitialState(std::int64_t batch_size) const override {
    return encoder_.InitialState(batch_size);
  }

  std::map<std::string, double> losses() const override { return encoder_.losses(); }

 private:
  struct DecoderLayer {
    RmsNorm norm;
    Linear linear;
  };

  static DecoderLayer Layer(ParameterSet& parameters, const std::string& name,
                            std::int64_t d_model) {
    const ParameterScope scope(parameters, name);
    return {RmsNorm(scope.Child("norm"), d_model, kNormEps),
            Linear(scope.Child("linear"), d_model, d_model, /*bias=*/true)};
  }

  at::Tensor Encode(const at::Tensor& tokens, BackboneOptions options,
                    BackboneOutput& output) const {
    if (global_pool_ == GlobalPool::kMean) {
      options.scored = nullptr;
      return encoder_(tokens, options, output).hidden.mean(1);
    }
    const kernels::ScoredPositions last =
        LastTokens(tokens.size(0), tokens.size(1), tokens.device());
    options.scored = &last;
    return encoder_(tokens, options, output).hidden;
  }

  GlobalPool global_pool_;
  ResidualLayers encoder_;
  std::vector<DecoderLayer> decoder_;
  RmsNorm final_norm_;
  Linear head_;
};

MadAutoencoderConfig Parse(const Value& config, const std::string& where) {
  const MadAutoencoderConfig parsed = ConfigFields().Parse(config, where);
  CheckRange(parsed.d_model, 2, 1 << 16, where, "d_model");
  DivideExactly(parsed.d_model, 2, where, "d_model", "d_model");
  CheckRange(parsed.n_layers, 1, 1024, where, "n_layers");
  CheckRange(parsed.channel_mixer_dim, 0, 1 << 20, where, "channel_mixer_dim");
  return parsed;
}

}  // namespace

void Register(BackboneRegistry& registry) {
  BackboneEntry entry = MakeBackboneEntry(ConfigFields(), Parse, kMakeBackbone<MadAutoencoder>);
  entry.summary = "MAD's auto-encoder: every token is read off one vector";
  entry.source = "arXiv 2403.17844; athms/mad-lab 0f49a45";
  entry.is_autoencoder = true;
  entry.init_policy = [](const Value& config) { return Parse(config, "").init_policy; };
  entry.test_configs = {
      Object{{"d_model", 16},
             {"n_layers", 1},
             {"channel_mixer", "mlp"},
             {"channel_mixer_dim", 24},
             {"global_pool", "mean"},
             {"init_policy", "mad"},
             {"sequence_mixer", Object{{"name", "mamba"}}}},
  };
  registry.Add("mad_autoencoder", std::move(entry));
}

}  // namespace mixerbench::models::mad_autoencoder
