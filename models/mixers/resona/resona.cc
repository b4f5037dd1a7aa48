// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/resona/resona.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/error.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/holding_mixer.h"
#include "models/blocks/linear.h"
#include "models/mixers/resona/retrieval.h"

namespace mixerbench::models::resona {
namespace {

constexpr char kInner[] = "inner";
constexpr char kEmbeddings[] = "embeddings";
constexpr char kPreviousOutput[] = "previous_output";

const Fields<ResonaConfig>& ConfigFields() {
  using Config = ResonaConfig;
  static const auto fields =
      Fields<Config>()
          .Add("inner", &Config::inner, "the mixer beside which is searched")
          .Add("chunk_size", &Config::chunk_size, "tokens of a chunk")
          .Add("top_k", &Config::top_k, "chunks that a token reads")
          .Add("num_heads", &Config::num_heads, "heads of the attention to their tokens")
          .Add("head_dim", &Config::head_dim, "channels of these heads; 0: d_model / num_heads")
          .Add("embed_dim", &Config::embed_dim, "channels of what is searched; 0: d_model")
          .Add("shared_encoder", &Config::shared_encoder, "one encoder for chunks and queries")
          .Add("query_source", &Config::query_source,
               "what queries are formed from; in the first layer the embeddings stand for "
               "previous_output")
          .Add("memory_source", &Config::memory_source,
               "what chunks, keys and values are formed from")
          .Add("search_gradient", &Config::search_gradient,
               "none: no encoder, nothing to learn; gate: values are weighted by the probability "
               "of their chunk; straight_through: backward alone")
          .Add("temperature", &Config::temperature, "of these probabilities, of cosines")
          .Add("alpha", &Config::alpha, "share of the mixer's output, the rest is what was read")
          .Add("input_alpha", &Config::input_alpha,
               "the share is a function of the token that starts at alpha")
          .Add("empty_retrieval", &Config::empty_retrieval,
               "what tokens without a complete chunk before them get: inner: the mixer's output; "
               "scaled: alpha times it");
  return fields;
}

class Resona final : public HoldingMixer {
 public:
  // `config` with every 0 replaced by what it stands for.
  Resona(const ResonaConfig& config, const std::string& where, const MixerContext& context,
         const ParameterScope& scope)
      : config_(config),
        d_model_(context.d_model),
        reads_previous_(config.query_source == QuerySource::kPreviousOutput &&
                        context.offered.contains(kPreviousOutput)),
        q_proj_(scope.Child("q_proj"), context.d_model, ReadDim(), /*bias=*/false),
        kv_proj_(scope.Child("kv_proj"), context.d_model, 2 * ReadDim(), /*bias=*/false) {
    Add(kInner, config.inner, where + "/inner", context, scope);
    const std::int64_t held_dim = held(0).traits().output_dim;
    output_dim_ = held_dim != 0 ? held_dim : context.d_model;
    out_proj_.emplace(scope.Child("out_proj"), ReadDim(), output_dim_, /*bias=*/false,
                      ParameterRole::kResidualOutputWeight);
    // The first channels, so that cosines of codes begin as those of embeddings.
    const at::Tensor identity =
        at::eye(config.embed_dim, context.d_model, at::TensorOptions(at::kDouble));
    if (config.search_gradient == SearchGradient::kNone) {
      chunk_encoder_ = query_encoder_ = identity.to(scope.special_options());
    } else {
      chunk_encoder_ = query_encoder_ = scope.AddSpecial("encoder", identity);
      if (!config.shared_encoder) query_encoder_ = scope.AddSpecial("query_encoder", identity);
    }
    if (!config.input_alpha) return;
    alpha_weight_ = scope.AddSpecial("alpha_weight", {1, context.d_model}, Init::Constant(0));
    alpha_bias_ = scope.AddSpecial("alpha_bias", {1},
                                   Init::Constant(std::log(config.alpha / (1 - config.alpha))));
  }

  MixerTraits traits() const override {
    MixerTraits traits = HoldingMixer::traits();
    traits.discrete = true;
    traits.output_dim = output_dim_;
    if (reads_previous_) traits.reads.insert(kPreviousOutput);
    if (ReadsEmbeddings()) traits.reads.insert(kEmbeddings);
    return traits;
  }

  State InitialState(std::int64_t batch_size) const override {
    State state = HoldingMixer::InitialState(batch_size);
    const auto options = q_proj_.weight().options().requires_grad(false);
    const auto floats = AtLeastFloat(q_proj_.weight()).options().requires_grad(false);
    SetMemory(state,
              {.kv = at::zeros({batch_size, 0, 2, config_.num_heads, config_.head_dim}, options),
               .codes = at::zeros({batch_size, 0, config_.embed_dim}, floats),
               .partial = at::zeros({batch_size, d_model_}, floats)});
    return state;
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    const bool reads_this = config_.query_source == QuerySource::kThisOutput;
    MixerOptions inner_options = options;
    if (reads_this) inner_options.scored = nullptr;  // a query for every token
    Mixed mixed = HoldingMixer::Mix(inputs, inner_options);
    at::Tensor y;
    if (reads_this) {
      y = OutputOf(0, mixed, inner_options);
      mixed.inner.clear();
    }
    const auto value = [&](const char* name) {
      return inputs.values.at(name).to(inputs.x.scalar_type());
    };
    const at::Tensor queries =
        reads_this ? y : value(reads_previous_ ? kPreviousOutput : kEmbeddings);
    const bool from_input = config_.memory_source == MemorySource::kLayerInput;
    const Memory memory = Remember(from_input ? inputs.x : value(kEmbeddings), options);

    const SearchArgs search{.queries = Encode(queries, query_encoder_),
                            .codes = memory.codes,
                            .first_position = memory.kv.size(1) - inputs.x.size(1),
                            .chunk_size = config_.chunk_size,
                            .top_k = config_.top_k,
                            .gradient = config_.search_gradient,
                            .temperature = config_.temperature};
    const at::Tensor alpha = Alpha(inputs.x);                             // [B,T,1]
    const at::Tensor read_share = (1 - alpha) * HasChunk(search, alpha);  // [B,T,1]
    const at::Tensor own_share =
        config_.empty_retrieval == EmptyRetrieval::kInner ? 1 - read_share : alpha;
    const auto dtype = inputs.x.scalar_type();
    mixed.tokens = {{Read(queries, memory, search, options) * read_share.to(dtype)},
                    {own_share.to(dtype)}};
    if (reads_this) mixed.tokens.push_back({y});
    if (options.want_final_state) SetMemory(mixed.final_state, memory);
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor y =
        mixed.tokens.size() > 2 ? mixed.tokens[2].value : OutputOf(0, mixed, options);
    return y * mixed.tokens[1].value + (*out_proj_)(mixed.tokens[0].value, options.path);
  }

 private:
  struct Memory {
    at::Tensor kv;       // [B,S,2,h,D] of all tokens
    at::Tensor codes;    // [B,N,E] of all complete chunks
    at::Tensor partial;  // [B,d]: the sum over the tokens of the chunk that is not
  };

  void SetMemory(State& state, const Memory& memory) const {
    state.tensors["kv"] = {memory.kv, StateKind::kCache};
    state.tensors["codes"] = {memory.codes, StateKind::kCache, config_.chunk_size};
    state.tensors["partial"] = {memory.partial, StateKind::kPartial};
  }

  std::int64_t ReadDim() const { return config_.num_heads * config_.head_dim; }

  bool ReadsEmbeddings() const {
    return config_.memory_source == MemorySource::kEmbeddings ||
           config_.query_source == QuerySource::kEmbeddings ||
           (config_.query_source == QuerySource::kPreviousOutput && !reads_previous_);
  }

  at::Tensor Encode(const at::Tensor& x, const at::Tensor& encoder) const {
    const at::Tensor wide = AtLeastFloat(x);
    return at::linear(wide, encoder.to(wide.scalar_type()));
  }

  // What is remembered after `source` [B,T,d].
  Memory Remember(const at::Tensor& source, const MixerOptions& options) const {
    const State* const before = options.initial_state;
    const std::int64_t chunk_size = config_.chunk_size;
    Memory memory;
    memory.kv =
        kv_proj_(source, options.path).unflatten(-1, {2, config_.num_heads, config_.head_dim});
    at::Tensor tokens = AtLeastFloat(source);
    const at::Tensor old_kv = Find(before, "kv");
    if (old_kv.defined()) {
      memory.kv = at::cat({old_kv.to(memory.kv.scalar_type()), memory.kv}, 1);
      // The sum of the tokens of the unfinished chunk stands for them.
      const std::int64_t num_partial = old_kv.size(1) % chunk_size;
      if (num_partial > 0) {
        const at::Tensor sum = Find(before, "partial").unsqueeze(1);
        tokens = at::cat({at::constant_pad_nd(sum, {0, 0, 0, num_partial - 1}), tokens}, 1);
      }
    }
    const std::int64_t num_complete = tokens.size(1) / chunk_size;
    const std::int64_t num_partial = tokens.size(1) % chunk_size;
    const at::Tensor means = tokens.narrow(1, 0, num_complete * chunk_size)
                                 .unflatten(1, {num_complete, chunk_size})
                                 .mean(2);
    memory.codes = Encode(means, chunk_encoder_);
    if (old_kv.defined()) memory.codes = at::cat({Find(before, "codes"), memory.codes}, 1);
    memory.partial = tokens.narrow(1, num_complete * chunk_size, num_partial).sum(1);
    return memory;
  }

  // What each token reads: [B,T,h D].
  at::Tensor Read(const at::Tensor& queries, const Memory& memory, const SearchArgs& search,
                  const MixerOptions& options) const {
    const at::Tensor q =
        q_proj_(queries, options.path).unflatten(-1, {config_.num_heads, config_.head_dim});
    if (memory.codes.size(1) == 0) return at::zeros_like(q).flatten(2);
    const Choice choice = Search(search);
    options.taps.Record("router", choice.chunks.masked_fill(choice.valid.logical_not(), -1));
    const at::Tensor o =
        Integrate({.q = q, .kv = memory.kv, .choice = choice, .chunk_size = config_.chunk_size},
                  options.path);
    return o.flatten(2);
  }

  // [B,T,1], float32 at least.
  at::Tensor Alpha(const at::Tensor& x) const {
    const at::Tensor wide = AtLeastFloat(x);
    if (!config_.input_alpha) {
      return at::full({x.size(0), x.size(1), 1}, config_.alpha,
                      wide.options().requires_grad(false));
    }
    return at::sigmoid(at::linear(wide, alpha_weight_, alpha_bias_));
  }

  ResonaConfig config_;
  std::int64_t d_model_;
  bool reads_previous_;
  std::int64_t output_dim_ = 0;
  Linear q_proj_;
  Linear kv_proj_;  // rows: keys, values
  std::optional<Linear> out_proj_;
  at::Tensor chunk_encoder_;  // [E,d]
  at::Tensor query_encoder_;
  at::Tensor alpha_weight_;  // [1,d]; undefined for a constant share
  at::Tensor alpha_bias_;    // [1]
};

ResonaConfig Parse(const Value& config, const std::string& where) {
  return ConfigFields().Parse(config, where);
}

std::unique_ptr<Mixer> Make(ResonaConfig config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.chunk_size, 1, 1 << 20, where, "chunk_size");
  CheckRange(config.top_k, 1, 64, where, "top_k");
  CheckRange(config.num_heads, 1, 1 << 12, where, "num_heads");
  if (config.head_dim == 0) {
    config.head_dim =
        DivideExactly(context.d_model, config.num_heads, where, "num_heads", "d_model");
  }
  CheckRange(config.head_dim, 1, 1 << 12, where, "head_dim");
  if (config.embed_dim == 0) config.embed_dim = context.d_model;
  CheckRange(config.embed_dim, 1, context.d_model, where, "embed_dim");
  CheckPositive(config.temperature, where, "temperature");
  if (config.search_gradient == SearchGradient::kNone) {
    constexpr const char* kRule = "needs a search_gradient: without one nothing learns to search";
    if (!config.shared_encoder) throw ConfigError(where + "/shared_encoder", kRule);
    if (config.temperature != ResonaConfig{}.temperature) {
      throw ConfigError(where + "/temperature", kRule);
    }
  }
  const bool alpha_fits = config.input_alpha ? config.alpha > 0 && config.alpha < 1
                                             : config.alpha >= 0 && config.alpha <= 1;
  if (!alpha_fits) {
    throw ConfigError(where + "/alpha",
                      config.input_alpha ? "must lie between 0 and 1" : "must be in [0, 1]");
  }
  return std::make_unique<Resona>(config, where, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeHoldingEntry(ConfigFields(), Parse, "inner", &ResonaConfig::inner, Make);
  entry.summary = "a mixer beside which each token reads earlier chunks that it searches for";
  entry.source = "RESONA, arXiv 2503.22913";
  entry.test_configs = {
      Object{{"inner", Object{{"name", "base_conv"}, {"kernel_sizes", Array{3}}}},
             {"chunk_size", 3},
             {"top_k", 2},
             {"num_heads", 2},
             {"head_dim", 4},
             {"embed_dim", 8},
             {"query_source", "this_output"},
             {"memory_source", "layer_input"},
             {"search_gradient", "gate"},
             {"temperature", 0.5},
             {"input_alpha", true}},
      Object{{"inner", Object{{"name", "delta_net"}}},
             {"shared_encoder", false},
             {"query_source", "embeddings"},
             {"alpha", 0.25},
             {"empty_retrieval", "scaled"}},
      Object{{"search_gradient", "none"}, {"top_k", 3}},
  };
  registry.Add("resona", std::move(entry));
}

}  // namespace mixerbench::models::resona
