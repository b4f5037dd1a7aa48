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

#include "kernels/gates/gates.h"
#include "kernels/layout/columns.h"
#include "kernels/linear_attention/delta_rule/delta_rule.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/decay.h"
#include "models/blocks/linear.h"
#include "models/blocks/output_block.h"
#include "models/blocks/routed_core.h"
#include "models/blocks/short_convolution.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::mom {
namespace {

using kernels::RecurrenceArgs;

constexpr char kConvolution[] = "conv";
constexpr char kBalance[] = "balance";
constexpr double kBalanceWeight = 0.01;

const Fields<MomConfig>& ConfigFields() {
  using Config = MomConfig;
  static const auto fields =
      Fields<Config>()
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
               "width of a convolution with silu on q, k, v; 0: none")
          .Add("allow_neg_eigval", &Config::allow_neg_eigval,
               "write strength in (0,2) instead of (0,1)")
          .Add("implementation", &Config::implementation, "how the fast path computes the memories")
          .Add("output_gate", &Config::output_gate, "after the norm of each head's output")
          .Add("norm_eps", &Config::norm_eps, "eps of that norm");
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
                kernels::DeltaRule, scope),
        in_proj_(scope.Child("in_proj"), context.d_model,
                 qkv_dim() + 2 * sizes.num_heads * all_sets_ + config.num_memories + gate_width_,
                 /*bias=*/false),
        decay_(scope, sizes.num_heads),
        output_(output, sizes.num_heads, sizes.head_v_dim, context, scope) {
    if (config.conv_size == 0) return;
    conv_.emplace(scope.Child("conv"), qkv_dim(), config.conv_size, /*bias=*/false);
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
    std::vector<kernels::ColumnBlock> blocks = {qkv_dim(), 2 * sizes_.num_heads * all_sets_,
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
      args.memories.beta = TapBeta(options.taps, args.memories.beta, routing);
      if (args.shared) {
        args.shared->beta = options.taps.Child("shared").WriteGate(args.shared->beta);
      }
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
    if (!conv_) return at::silu(qkv);
    const auto convolved = (*conv_)(qkv, Find(options.initial_state, kConvolution), options.path,
                                    {.silu = true,
                                     .norm_channels = sizes_.key_dim() * (1 + all_sets_),
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
      return conv_ ? heads : L2Norm(heads);  // which the convolution has done
    };
    const auto gates =
        kernels::ComputeDeltaGates({.z = gate_columns,
                                    .beta_scale = config_.allow_neg_eigval ? 2.0 : 1.0,
                                    .A_log = decay_.A_log.repeat({all_sets_}),
                                    .dt_bias = decay_.dt_bias.repeat({all_sets_})},
                                   options.path);
    const at::Tensor q = keys(parts[0]);
    const at::Tensor k = keys(parts[1]);
    const at::Tensor v = parts[2].unflatten(-1, {all_sets_, num_heads, sizes_.head_v_dim});
    const at::Tensor beta = gates.beta.unflatten(-1, {all_sets_, num_heads});
    const at::Tensor log_decay = gates.log_decay.unflatten(-1, {all_sets_, num_heads});
    const auto memories = [&](const at::Tensor& x) { return x.narrow(2, 0, sizes_.num_sets); };
    Args args{.memories = {.q = q,
                           .k = memories(k),
                           .v = memories(v),
                           .log_decay = memories(log_decay),
                           .beta = memories(beta)},
              .shared = std::nullopt};
    if (config_.use_shared) {
      const auto last = [](const at::Tensor& x) { return x.select(2, x.size(2) - 1); };
      args.shared = RecurrenceArgs{.q = last(q),
                                   .k = last(k),
                                   .v = last(v),
                                   .log_decay = last(log_decay),
                                   .beta = last(beta)};
    }
    return args;
  }

  // The write gate is the mean over the chosen memories, whose strengths an override scales alike.
  at::Tensor TapBeta(const TapScope& taps, const at::Tensor& beta, const Routing& routing) const {
    const at::Tensor chosen = beta * routing.selected.unsqueeze(-1);
    const at::Tensor gate = chosen.sum(2) / static_cast<double>(config_.top_k);
    const at::Tensor used = taps.WriteGate(gate);
    return taps.Overrides() ? beta * (used / gate).unsqueeze(2) : beta;
  }

  MomConfig config_;
  Sizes sizes_;
  std::int64_t all_sets_;
  std::int64_t gate_width_;
  std::string router_sums_;  // what layers of the same sizes offer each other
  bool reads_sums_;
  RoutedCore routed_;
  Linear in_proj_;
  SoftplusDecay decay_;
  std::optional<ShortConvolution> conv_;
  OutputBlock output_;
};

std::unique_ptr<Mixer> Make(const MomConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  CheckRange(config.num_heads, 1, context.d_model, where, "num_heads");
  CheckRange(config.num_memories, 1, 1024, where, "num_memories");
  CheckRange(config.top_k, 1, config.num_memories, where, "top_k");
  CheckRange(config.conv_size, 0, 64, where, "conv_size");
  CheckEps(config.norm_eps, where, "norm_eps");
  Sizes sizes{.num_heads = config.num_heads};
  sizes.head_k_dim =
      ExpandedHeadDim(config.expand_k, context.d_model, config.num_heads, where, "expand_k");
  sizes.head_v_dim = ExpandedHeadDim(config.expand_v, sizes.head_k_dim, 1, where, "expand_v");
  sizes.num_sets = config.single_kv_proj ? 1 : config.num_memories;
  OutputLayout output;
  output.gate = config.output_gate;
  output.eps = config.norm_eps;
  return std::make_unique<Mom>(config, sizes, output, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "mixture of memories: Gated DeltaNet in memories chosen by a router";
  entry.source = "arXiv 2502.13685";
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
  };
  registry.Add("mom", std::move(entry));
}

}  // namespace mixerbench::models::mom
