// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/ttt_linear/ttt_linear.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "kernels/linear_attention/ttt/ttt.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/linear.h"
#include "models/blocks/norms.h"
#include "models/blocks/short_convolution.h"
#include "models/blocks/write_strength.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::ttt_linear {
namespace {

constexpr char kQueryConvolution[] = "conv_q";
constexpr char kKeyConvolution[] = "conv_k";
constexpr double kInitStd = 0.02;

// The state of the learner, by name.
struct LearnerTensor {
  const char* name;
  at::Tensor kernels::TttState::*field;
  StateKind kind;
};
constexpr LearnerTensor kLearner[] = {
    {"weight", &kernels::TttState::weight, StateKind::kRecurrent},
    {"bias", &kernels::TttState::bias, StateKind::kRecurrent},
    {"unfinished_k", &kernels::TttState::k, StateKind::kPartial},
    {"unfinished_v", &kernels::TttState::v, StateKind::kPartial},
    {"unfinished_learning_rate", &kernels::TttState::learning_rate, StateKind::kPartial}};

const Fields<TttLinearConfig>& ConfigFields() {
  using Config = TttLinearConfig;
  static const auto fields =
      Fields<Config>()
          .Add("num_heads", &Config::num_heads, "heads, each with a layer of its own")
          .Add("mini_batch_size", &Config::mini_batch_size,
               "tokens whose gradients are taken at the same parameters")
          .Add("base_lr", &Config::base_lr, "learning rates are below this / head_dim")
          .Add("conv_size", &Config::conv_size,
               "width of two convolutions that make q and k of one projection; 0: two projections")
          .Add("use_output_gate", &Config::use_output_gate, "gelu gate after the last norm")
          .Add("norm_eps", &Config::norm_eps, "eps of both norms");
  return fields;
}

class TttLinear final : public Mixer {
 public:
  TttLinear(const TttLinearConfig& config, std::int64_t head_dim, const MixerContext& context,
            const ParameterScope& scope);

  MixerTraits traits() const override {
    return {.output_dim = out_proj_ ? 0 : config_.num_heads * head_dim_};
  }
  State InitialState(std::int64_t batch_size) const override;
  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override;
  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override;

 private:
  kernels::TttState InitialLearner(std::int64_t batch_size) const;
  // Turns neighbouring channels by the place in the mini-batch, the first token's being `place`.
  at::Tensor Turn(const at::Tensor& x, std::int64_t place) const;
  at::Tensor LearningRate(const at::Tensor& x) const;  // [B,T,D] -> [B,T,H]

  TttLinearConfig config_;
  std::int64_t head_dim_;
  Linear in_proj_;
  std::optional<ShortConvolution> conv_q_, conv_k_;
  at::Tensor weight_, bias_;            // [H,K,K], [H,K]: of the layer before the first token
  at::Tensor norm_weight_, norm_bias_;  // [H,K]
  at::Tensor lr_weight_, lr_bias_;      // [H,D], [H]
  at::Tensor token_scale_;              // [M], delta
  at::Tensor one_over_place_;           // [M]
  at::Tensor frequencies_;              // [K/2]
  LayerNorm post_norm_;
  std::optional<Linear> out_proj_;
};

TttLinear::TttLinear(const TttLinearConfig& config, std::int64_t head_dim,
                     const MixerContext& context, const ParameterScope& scope)
    : config_(config),
      head_dim_(head_dim),
      in_proj_(scope.Child("in_proj"), context.d_model,
               ((config.conv_size > 0 ? 2 : 3) + (config.use_output_gate ? 1 : 0)) *
                   config.num_heads * head_dim,
               /*bias=*/false),
      weight_(scope.AddSpecial("weight", {config.num_heads, head_dim, head_dim},
                               Init::Normal(kInitStd))),
      bias_(scope.AddSpecial("bias", {config.num_heads, head_dim}, Init::Constant(0))),
      norm_weight_(
          scope.AddSpecial("norm_weight", {config.num_heads, head_dim}, Init::Constant(1))),
      norm_bias_(scope.AddSpecial("norm_bias", {config.num_heads, head_dim}, Init::Constant(0))),
      lr_weight_(scope.AddSpecial("lr_weight", {config.num_heads, context.d_model},
                                  Init::Normal(kInitStd))),
      lr_bias_(scope.AddSpecial("lr_bias", {config.num_heads}, Init::Constant(0))),
      token_scale_(scope.AddSpecial("token_scale", {config.mini_batch_size}, Init::Constant(0))),
      one_over_place_(
          at::arange(1, config.mini_batch_size + 1, scope.special_options()).reciprocal()),
      frequencies_(at::pow(1e4, at::arange(0, head_dim, 2, scope.special_options()) /
                                    -static_cast<double>(head_dim))),
      post_norm_(scope.Child("post_norm"), config.num_heads * head_dim, config.norm_eps) {
  const std::int64_t width = config.num_heads * head_dim;
  if (config.conv_size > 0) {
    conv_q_.emplace(scope.Child("conv_q"), width, config.conv_size, /*bias=*/true);
    conv_k_.emplace(scope.Child("conv_k"), width, config.conv_size, /*bias=*/true);
  }
  if (context.output_projection) {
    out_proj_.emplace(scope.Child("o_proj"), width, context.d_model, /*bias=*/false);
  }
}

kernels::TttState TttLinear::InitialLearner(std::int64_t batch_size) const {
  return {.weight = weight_.expand({batch_size, -1, -1, -1}),
          .bias = bias_.expand({batch_size, -1, -1})};
}

State TttLinear::InitialState(std::int64_t batch_size) const {
  kernels::TttState learner = InitialLearner(batch_size);
  const auto options = weight_.options().requires_grad(false);
  learner.weight = learner.weight.detach().contiguous();
  learner.bias = learner.bias.detach().contiguous();
  learner.k = at::zeros({batch_size, 0, config_.num_heads, head_dim_}, options);
  learner.v = learner.k.clone();
  learner.learning_rate = at::zeros({batch_size, 0, config_.num_heads}, options);
  State state;
  for (const auto& [name, field, kind] : kLearner) state.tensors[name] = {learner.*field, kind};
  if (conv_q_) {
    state.tensors[kQueryConvolution] = {conv_q_->InitialHistory(batch_size),
                                        StateKind::kConvolution};
    state.tensors[kKeyConvolution] = {conv_k_->InitialHistory(batch_size), StateKind::kConvolution};
  }
  return state;
}

at::Tensor TttLinear::Turn(const at::Tensor& x, std::int64_t place) const {
  const auto places = at::arange(place, place + x.size(1), frequencies_.options())
                          .remainder_(static_cast<double>(config_.mini_batch_size));
  const auto angles = (places.unsqueeze(-1) * frequencies_).unsqueeze(1);  // [T,1,K/2]
  const auto cos = angles.cos(), sin = angles.sin();
  const auto pairs = AtLeastFloat(x).unflatten(-1, {-1, 2}).unbind(-1);
  return at::stack({pairs[0] * cos - pairs[1] * sin, pairs[1] * cos + pairs[0] * sin}, -1)
      .flatten(-2)
      .to(x.scalar_type());
}

at::Tensor TttLinear::LearningRate(const at::Tensor& x) const {
  const auto logits = AtLeastFloat(x).matmul(lr_weight_.t()) + lr_bias_;
  return at::sigmoid(logits) * (config_.base_lr / static_cast<double>(head_dim_));
}

Mixed TttLinear::Mix(const MixerInputs& inputs, const MixerOptions& options) const {
  Mixed mixed;
  const std::int64_t width = config_.num_heads * head_dim_;
  std::vector<kernels::ColumnBlock> blocks = {width, width};
  if (!conv_q_) blocks.emplace_back(width);
  if (config_.use_output_gate) blocks.emplace_back(width, /*only_scored=*/true);
  auto columns = in_proj_.Columns(inputs.x, blocks, options.scored, options.path);
  TokenTensor gate;
  if (config_.use_output_gate) {
    gate = {columns.back(), /*selected=*/options.scored != nullptr};
    columns.pop_back();
  }
  const at::Tensor v = columns.back();
  at::Tensor q = columns[0], k = columns[columns.size() - 2];
  const auto convolve = [&](const ShortConvolution& convolution, const char* name, at::Tensor& x) {
    auto convolved = convolution(x, Find(options.initial_state, name), options.path);
    x = convolved.y;
    if (options.want_final_state) {
      mixed.final_state.tensors[name] = {convolved.history, StateKind::kConvolution};
    }
  };
  if (conv_q_) {
    convolve(*conv_q_, kQueryConvolution, q);
    convolve(*conv_k_, kKeyConvolution, k);
  }

  kernels::TttState learner = InitialLearner(inputs.x.size(0));
  if (options.initial_state != nullptr) {
    for (const auto& [name, field, kind] : kLearner) {
      learner.*field = Find(options.initial_state, name);
    }
  }
  const std::int64_t place = learner.k.defined() ? learner.k.size(1) : 0;
  const auto heads = [&](const at::Tensor& x) {
    return x.unflatten(-1, {config_.num_heads, head_dim_});
  };
  q = Turn(heads(q), place);
  at::Tensor learning_rate = LearningRate(inputs.x);
  if (options.taps) learning_rate = options.taps.WriteGate(learning_rate);
  const kernels::TttResult result =
      kernels::Ttt({.q = q,
                    .k = Turn(heads(k), place),
                    .v = heads(v),
                    .learning_rate = learning_rate,
                    .token_scale = (one_over_place_ + token_scale_).clamp_min(0),
                    .norm_weight = norm_weight_,
                    .norm_bias = norm_bias_,
                    .initial_state = learner,
                    .norm_eps = config_.norm_eps,
                    .wants_loss = options.taps.Wants("inner_loss"),
                    .scale = 1},
                   options.path);
  if (options.taps) {
    options.taps.Record("surprise", result.surprise);
    if (result.loss.defined()) options.taps.Record("inner_loss", result.loss);
    TapState(options.taps, result.final_state.weight);
  }
  if (options.want_final_state) {
    for (const auto& [name, field, kind] : kLearner) {
      mixed.final_state.tensors[name] = {result.final_state.*field, kind};
    }
  }
  mixed.tokens = {{result.o}, {q}, gate};
  return mixed;
}

at::Tensor TttLinear::Output(const Mixed& mixed, const MixerOptions& options) const {
  const at::Tensor& z = mixed.tokens[0].value;  // [...,H,K]
  const auto dtype = z.scalar_type();
  const auto normed =
      at::layer_norm(z, {head_dim_}, {}, {}, config_.norm_eps) * norm_weight_.to(dtype) +
      norm_bias_.to(dtype);
  at::Tensor y = post_norm_((mixed.tokens[1].value + normed).flatten(-2));
  if (config_.use_output_gate) y = y * at::gelu(mixed.tokens[2].value, "tanh");
  return out_proj_ ? (*out_proj_)(y, options.path) : y;
}

std::unique_ptr<Mixer> Make(const TttLinearConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  const std::int64_t head_dim =
      DivideExactly(context.d_model, config.num_heads, where, "num_heads", "d_model");
  if (head_dim % 2 != 0) {
    throw ConfigError(where + "/num_heads", "makes heads of " + std::to_string(head_dim) +
                                                " channels, which do not pair up for the rotation");
  }
  CheckRange(config.mini_batch_size, 1, 4096, where, "mini_batch_size");
  CheckRange(config.conv_size, 0, 64, where, "conv_size");
  CheckPositive(config.base_lr, where, "base_lr");
  CheckEps(config.norm_eps, where, "norm_eps");
  return std::make_unique<TttLinear>(config, head_dim, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "TTT-linear: a linear layer of each head, trained on the sequence";
  entry.source = "arXiv 2407.04620";
  entry.test_configs = {
      Object{{"num_heads", 1},
             {"mini_batch_size", 5},
             {"base_lr", 0.5},
             {"conv_size", 4},
             {"use_output_gate", true},
             {"norm_eps", 1e-5}},
      Object{{"mini_batch_size", 1}},
  };
  registry.Add("ttt_linear", std::move(entry));
}

}  // namespace mixerbench::models::ttt_linear
