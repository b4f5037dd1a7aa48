// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mom/mom.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/silu.h>

#include "kernels/layout/columns.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/linear.h"
#include "models/blocks/output_block.h"
#include "models/blocks/routed_core.h"
#include "models/blocks/short_convolution.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"
#include "models/mixers/mom/memory_gates.h"

namespace mixerbench::models::mom {
namespace {

using kernels::RecurrenceArgs;

constexpr char kConvolution[] = "conv";
constexpr char kBalance[] = "balance";
constexpr double kBalanceWeight = 0.01;
constexpr double kTiny = 1e-12;  // what is zero stays zero

const Fields<MomConfig>& ConfigFields() {
  using Config = MomConfig;
  static const auto fields =
      Fields<Config>()
          .Add("memory", &Config::memory, "the recurrence of a memory")
          .Add("num_heads", &Config::num_heads, "heads")
          .Add("expand_k", &Config::expand_k, "key channels per channel of d_model")
          .Add("expand_v", &Config::expand_v, "value channels of a head per key channel")
          .Add("num_memories", &Config::num_memories, "states among which the router chooses")
          .Add("top_k", &Config::top_k, "memories that a token writes and reads")
          .Add("use_shared", &Config::use_shared,
               "one more memory, which all tokens write and read")
          .Add("single_kv_proj", &Config::single_kv_proj,
               "one projection of keys, values and gates for all memories but the shared one")
          .Add("conv_size", &Config::conv_size,
               "width of a convolution with silu on q, k, v; 0: silu alone, of gla neither")
          .Add("allow_neg_eigval", &Config::allow_neg_eigval,
               "write strength in (0,2) instead of (0,1), of gated_delta_net")
          .Add("gate_low_rank_dim", &Config::gate_low_rank_dim,
               "width between the two projections of the decay logits of gla")
          .Add("gate_logit_normalizer", &Config::gate_logit_normalizer,
               "log decay of gla = log sigmoid(logit) / this")
          .Add("implementation", &Config::implementation, "how the fast path computes the memories")
          .Add("output_gate", &Config::output_gate, "after the norm of each head's output")
          .Add("norm_eps", &Config::norm_eps, "eps of that norm")
          .AddLater("init", &Config::init,
                    "of projections, where the backbone's policy keeps what mixers ask for");
  return fields;
}

struct Sizes {
  std::int64_t num_heads = 1;
  std::int64_t head_k_dim = 0;
  std::int64_t head_v_dim = 0;
  std::int64_t num_sets = 1;  // of keys, values and gates for the memories; one more if shared

  std::int64_t key_dim() const { return num_heads * head_k_dim; }
  std::int64_t value_dim() const { return num_heads * head_v_dim; }
};

// The rows of in_proj: one layer for each memory, of keys, values and gates.
std::vector<LinearRows> ProjectionRows(const MomConfig& config, const Sizes& sizes,
                                       std::int64_t all_sets, const MemoryGates& gates,
                                       std::int64_t gate_width) {
  const auto times = static_cast<std::size_t>(all_sets);
  std::vector<LinearRows> rows = {{sizes.key_dim(), config.init}};
  rows.insert(rows.end(), times, {sizes.key_dim(), config.init});
  rows.insert(rows.end(), times, {sizes.value_dim(), config.init});
  const auto gate_layers = static_cast<std::size_t>(gates.num_columns / gates.layer_columns);
  rows.insert(rows.end(), gate_layers, {gates.layer_columns, config.init});
  rows.push_back({config.num_memories, config.init});
  rows.push_back({gate_width, config.init});
  return rows;
}

// E sum_s sum_e f_se P_e of `sums` [B,T,(k+1) E], which are added over layers: choices [k,E] and
// scores [E] of each token. f and P are means over the tokens of all layers.
at::Tensor PooledBalanceLoss(const at::Tensor& sums, std::int64_t num_memories) {
  const at::Tensor means = sums.mean(at::IntArrayRef({0, 1})).unflatten(0, {-1, num_memories});
  const std::int64_t top_k = means.size(0) - 1;
  const at::Tensor num_layers = means[0].sum();
  const at::Tensor f = means.narrow(0, 0, top_k).sum(0) / num_layers;
  return (f * (means[top_k] / num_layers)).sum() * static_cast<double>(num_memories);
}

class Mom final : public Mixer {
 public:
  Mom(const MomConfig& config, const Sizes& sizes, const OutputLayout& output,
      const MixerContext& context, const ParameterScope& scope)
      : config_(config),
        sizes_(sizes),
        all_sets_(sizes.num_sets + (config.use_shared ? 1 : 0)),
        gates_(MakeMemoryGates(config, all_sets_, sizes.head_k_dim, scope)),
        gate_width_(output.gate_columns(sizes.value_dim())),
        router_sums_("mom_router_" + std::to_string(config.num_memories) + "_" +
                     std::to_string(config.top_k)),
        reads_sums_(context.offered.contains(router_sums_)),
        routed_({.num_states = config.num_memories,
                 .has_shared = config.use_shared,
                 .num_heads = sizes.num_heads,
                 .head_k_dim = sizes.head_k_dim,
                 .head_v_dim = sizes.head_v_dim,
                 .form = config.implementation},
                gates_.core, scope),
        in_proj_(scope.Child("in_proj"), context.d_model,
                 ProjectionRows(config, sizes, all_sets_, gates_, gate_width_)),
        output_(output, sizes.num_heads, sizes.head_v_dim, context, scope) {
    if (config.conv_size == 0) return;
    conv_.emplace(
        scope.Child("conv"),
        std::vector<SharedFilters>{
            {sizes.key_dim(), 1}, {sizes.key_dim(), all_sets_}, {sizes.value_dim(), all_sets_}},
        config.conv_size);
  }

  MixerTraits traits() const override {
    MixerTraits traits{.offers = {router_sums_},
                       .losses = {{kBalance, kBalanceWeight}},
                       .discrete = true,
                       .output_dim = output_.output_dim()};
    if (reads_sums_) traits.reads = {router_sums_};
    return traits;
  }

  State InitialState(std::int64_t batch_size) const override {
    State state = routed_.InitialState(batch_size);
    if (conv_) {
      state.tensors[kConvolution] = {conv_->InitialHistory(batch_size), StateKind::kConvolution};
    }
    return state;
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    Mixed mixed;
    std::vector<kernels::ColumnBlock> blocks = {qkv_dim(), gates_.num_columns,
                                                config_.num_memories};
    if (gate_width_ > 0) blocks.emplace_back(gate_width_, /*only_scored=*/true);
    const std::vector<at::Tensor> columns =
        in_proj_.Columns(inputs.x, blocks, options.scored, options.path);
    const Routing routing = RouteBySoftmax(columns[2], config_.top_k);
    AddBalanceLoss(routing, inputs, mixed);

    Args args = Split(Convolve(columns[0], options, mixed), columns[1], options);
    const at::Tensor chosen = routing.scores * routing.selected;
    args.memories.read_weights = routing.scores / chosen.sum(-1, /*keepdim=*/true);
    if (options.taps) {
      TapRouting(options.taps, routing, args.memories.read_weights);
      TapWrites(options.taps, routing, args.memories);
      if (args.shared) TapSharedWrites(options.taps.Child("shared"), *args.shared);
    }
    mixed.tokens = {{}, {}};
    if (gate_width_ > 0) {
      mixed.tokens[1] = {columns[3], /*selected=*/options.scored != nullptr};
    }
    mixed.tokens[0] = {routed_.Run(args.memories, routing, args.shared, options, mixed)};
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    return output_(mixed.tokens[0].value, mixed.tokens[1].value, /*added=*/{}, options.path);
  }

 private:
  struct Args {
    RoutedArgs memories;
    std::optional<RecurrenceArgs> shared;
  };

  std::int64_t qkv_dim() const {
    return sizes_.key_dim() * (1 + all_sets_) + sizes_.value_dim() * all_sets_;
  }

  // Earlier layers offer their sums: what this layer adds to the pooled loss.
  void AddBalanceLoss(const Routing& routing, const MixerInputs& inputs, Mixed& mixed) const {
    at::Tensor sums = at::cat({routing.choices.flatten(2), routing.scores}, 2);
    at::Tensor loss;
    if (reads_sums_) {
      const at::Tensor& earlier = inputs.values.at(router_sums_);
      sums = sums + earlier;
      loss = PooledBalanceLoss(sums, config_.num_memories) -
             PooledBalanceLoss(earlier, config_.num_memories);
    } else {
      loss = PooledBalanceLoss(sums, config_.num_memories);
    }
    mixed.AddLoss(kBalance, loss.to(at::kFloat));
    mixed.offers[router_sums_] = sums;
  }

  // In the order of the tokens, before they part: no memory sees a neighbour of another.
  at::Tensor Convolve(const at::Tensor& qkv, const MixerOptions& options, Mixed& mixed) const {
    if (!conv_) return gates_.normalises ? at::silu(qkv) : qkv;
    const std::int64_t key_channels = sizes_.key_dim() * (1 + all_sets_);
    const auto convolved = (*conv_)(qkv, Find(options.initial_state, kConvolution), options.path,
                                    {.silu = true,
                                     .norm_channels = gates_.normalises ? key_channels : 0,
                                     .norm_dim = sizes_.head_k_dim});
    if (options.want_final_state) {
      mixed.final_state.tensors[kConvolution] = {convolved.history, StateKind::kConvolution};
    }
    return convolved.y;
  }

  Args Split(const at::Tensor& qkv, const at::Tensor& gate_columns,
             const MixerOptions& options) const {
    const std::int64_t num_heads = sizes_.num_heads;
    const std::vector<at::Tensor> parts = kernels::SplitColumns(
        qkv, {sizes_.key_dim(), sizes_.key_dim() * all_sets_, sizes_.value_dim() * all_sets_},
        options.path);
    const auto keys = [&](const at::Tensor& x) {
      const at::Tensor heads = x.unflatten(-1, {-1, num_heads, sizes_.head_k_dim});
      const bool has_length_one = conv_ || !gates_.normalises;  // or needs none
      return has_length_one ? heads : L2Norm(heads);
    };
    RoutedArgs all;
    all.q = keys(parts[0]);
    all.k = keys(parts[1]);
    all.v = parts[2].unflatten(-1, {all_sets_, num_heads, sizes_.head_v_dim});
    gates_.fill(gate_columns, options.path, all);

    const auto memories = [&](const at::Tensor& x) {
      return x.defined() ? x.narrow(2, 0, sizes_.num_sets) : x;
    };
    Args args{.memories = {.q = all.q,
                           .k = memories(all.k),
                           .v = memories(all.v),
                           .log_decay = memories(all.log_decay),
                           .beta = memories(all.beta)},
              .shared = std::nullopt};
    if (config_.use_shared) {
      const auto last = [](const at::Tensor& x) {
        return x.defined() ? x.select(2, x.size(2) - 1) : x;
      };
      args.shared = RecurrenceArgs{.q = last(all.q),
                                   .k = last(all.k),
                                   .v = last(all.v),
                                   .log_decay = last(all.log_decay),
                                   .beta = last(all.beta)};
    }
    return args;
  }

  // The write gate is the mean over the chosen memories, of beta or of |k| |v|; an override scales
  // beta or k of all of them alike.
  void TapWrites(const TapScope& taps, const Routing& routing, RoutedArgs& memories) const {
    const auto mean = [&](const at::Tensor& x) {  // [B,T,S,H] -> [B,T,H]
      return (x * routing.selected.unsqueeze(-1)).sum(2) / static_cast<double>(config_.top_k);
    };
    if (memories.beta.defined()) {
      const at::Tensor gate = mean(memories.beta);
      const at::Tensor used = taps.WriteGate(gate);
      if (taps.Overrides()) memories.beta = memories.beta * (used / gate).unsqueeze(2);
      return;
    }
    const at::Tensor k_norm = AtLeastFloat(memories.k.detach()).norm(2, -1);
    const at::Tensor v_norm = AtLeastFloat(memories.v.detach()).norm(2, -1);
    const at::Tensor length = mean(k_norm);
    const at::Tensor factor = taps.Overridden(length) / length.clamp_min(kTiny);
    taps.Record("write_gate", mean(k_norm * v_norm) * factor);
    if (!taps.Overrides()) return;
    memories.k = memories.k * factor.unsqueeze(2).unsqueeze(-1).to(memories.k.scalar_type());
  }

  void TapSharedWrites(const TapScope& taps, RecurrenceArgs& shared) const {
    if (shared.beta.defined()) {
      shared.beta = taps.WriteGate(shared.beta);
    } else {
      shared.k = TapWriteStrength(taps, shared.k, shared.v);
    }
  }

  MomConfig config_;
  Sizes sizes_;
  std::int64_t all_sets_;
  MemoryGates gates_;
  std::int64_t gate_width_;
  std::string router_sums_;  // what layers of the same sizes offer each other
  bool reads_sums_;
  RoutedCore routed_;
  Linear in_proj_;
  std::optional<ShortConvolution> conv_;
  OutputBlock output_;
};

std::unique_ptr<Mixer> Make(const MomConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_heads, 1, context.d_model, where, "num_heads");
  CheckRange(config.num_memories, 1, 1024, where, "num_memories");
  CheckRange(config.top_k, 1, config.num_memories, where, "top_k");
  CheckRange(config.conv_size, 0, 64, where, "conv_size");
  CheckRange(config.gate_low_rank_dim, 1, 4096, where, "gate_low_rank_dim");
  CheckPositive(config.gate_logit_normalizer, where, "gate_logit_normalizer");
  CheckEps(config.norm_eps, where, "norm_eps");
  if (config.memory == Memory::kGla && config.allow_neg_eigval) {
    throw ConfigError(where + "/allow_neg_eigval", "needs the memory 'gated_delta_net'");
  }
  Sizes sizes{.num_heads = config.num_heads};
  sizes.head_k_dim =
      ExpandedHeadDim(config.expand_k, context.d_model, config.num_heads, where, "expand_k");
  sizes.head_v_dim = ExpandedHeadDim(config.expand_v, sizes.head_k_dim, 1, where, "expand_v");
  sizes.num_sets = config.single_kv_proj ? 1 : config.num_memories;
  OutputLayout output;
  output.gate = config.output_gate;
  output.eps = config.norm_eps;
  output.projection_init = config.init;
  return std::make_unique<Mom>(config, sizes, output, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary =
      "mixture of memories: Gated DeltaNet or gated linear attention in memories chosen by a "
      "router";
  entry.source = "arXiv 2502.13685; memories of gla: 2507.16577";
  entry.test_configs = {
      Object{{"num_heads", 1},
             {"expand_k", 0.5},
             {"expand_v", 2},
             {"num_memories", 5},
             {"top_k", 1},
             {"single_kv_proj", true},
             {"conv_size", 0},
             {"allow_neg_eigval", true},
             {"implementation", "masking"},
             {"output_gate", "none"},
             {"norm_eps", 1e-6}},
      Object{{"use_shared", false}, {"top_k", 4}},
      Object{{"implementation", "loop"}, {"output_gate", "sigmoid"}, {"num_memories", 3}},
      Object{{"memory", "gla"},
             {"gate_low_rank_dim", 3},
             {"gate_logit_normalizer", 1},
             {"init", "xavier"}},
      Object{{"memory", "gla"},
             {"conv_size", 0},
             {"top_k", 3},
             {"single_kv_proj", true},
             {"use_shared", false},
             {"implementation", "masking"}},
  };
  registry.Add("mom", std::move(entry));
}

}  // namespace mixerbench::models::mom
