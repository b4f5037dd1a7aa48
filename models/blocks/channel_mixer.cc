// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/channel_mixer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>

#include "base/check.h"
#include "kernels/gates/gates.h"
#include "models/blocks/linear.h"
#include "models/blocks/rwkv_start.h"
#include "models/blocks/token_shift.h"

namespace mixerbench::models {
namespace {

// Two linear maps around an activation: a map per token, all of it Output.
class FeedForward final : public Mixer {
 public:
  FeedForward(const ChannelMixerConfig& config, std::int64_t d_model, const ParameterScope& scope)
      : is_gated_(config.kind == ChannelMixerKind::kSwiglu),
        tanh_gelu_(config.tanh_gelu),
        fc1_(scope.Child("fc1"), d_model, (is_gated_ ? 2 : 1) * config.inner_dim, config.bias),
        fc2_(scope.Child("fc2"), config.inner_dim, d_model, config.bias,
             ParameterRole::kResidualOutputWeight) {}

  State InitialState(std::int64_t) const override { return {}; }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions&) const override {
    return {.tokens = {{inputs.x}}};
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor inner = fc1_(mixed.tokens[0].value, options.path);
    return fc2_(is_gated_ ? kernels::Swiglu(inner, options.path)
                          : at::gelu(inner, tanh_gelu_ ? "tanh" : "none"),
                options.path);
  }

 private:
  bool is_gated_;
  bool tanh_gelu_;
  Linear fc1_;
  Linear fc2_;
};

// The token shift mixes over time; what is made of its mixes is a map per token.
class RwkvChannelMixer final : public Mixer {
 public:
  RwkvChannelMixer(const ChannelMixerConfig& config, const MixerContext& context,
                   const ParameterScope& scope)
      : token_mix_(scope.AddSpecial("token_mix", StartOfMixes(config.kind, context))),
        key_(scope.Child("key"), context.d_model, config.inner_dim, /*bias=*/false),
        value_(scope.Child("value"), config.inner_dim, context.d_model, /*bias=*/false,
               ParameterRole::kResidualOutputWeight) {
    if (config.kind == ChannelMixerKind::kRwkv) {
      receptance_.emplace(scope.Child("receptance"), context.d_model, context.d_model,
                          /*bias=*/false);
    }
  }

  State InitialState(std::int64_t batch_size) const override {
    State state;
    AddShiftState(batch_size, key_.weight(), state);
    return state;
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    Mixed mixed;
    const at::Tensor differences = TokenDifferences(inputs.x, options, mixed);
    for (const at::Tensor& mix : ShiftMixes(inputs.x, differences, token_mix_)) {
      mixed.tokens.push_back({mix});
    }
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor k = at::relu(key_(mixed.tokens[0].value, options.path)).square();
    const at::Tensor y = value_(k, options.path);
    if (!receptance_) return y;
    return at::sigmoid((*receptance_)(mixed.tokens[1].value, options.path)) * y;
  }

 private:
  // Shares of the token before: 1 - (i/d)^r1, in RWKV-7 with r1^4.
  static at::Tensor StartOfMixes(ChannelMixerKind kind, const MixerContext& context) {
    const RwkvStart start(context);
    if (kind == ChannelMixerKind::kRwkv7) {
      return 1 - start.Share(std::pow(start.remaining(), 3)).unsqueeze(0);
    }
    return 1 - at::stack({start.Share(1), start.Share(1)});
  }

  at::Tensor token_mix_;  // [1 or 2,D]: of the keys and of the receptance
  Linear key_;
  Linear value_;
  std::optional<Linear> receptance_;
};

}  // namespace

ChannelMixerConfig MadChannelMixer(ChannelMixerKind kind, std::int64_t inner_dim,
                                   std::int64_t d_model, std::int64_t swiglu_step) {
  constexpr std::int64_t kRwkvStep = 32;
  if (inner_dim == 0) {
    inner_dim = 4 * d_model;
    if (kind == ChannelMixerKind::kSwiglu) {
      inner_dim = (d_model * 8 / 3 + swiglu_step - 1) / swiglu_step * swiglu_step;
    } else if (kind == ChannelMixerKind::kRwkv) {
      inner_dim = std::max(kRwkvStep, d_model * 7 / 2 / kRwkvStep * kRwkvStep);
    }
  }
  return {.kind = kind, .inner_dim = inner_dim, .tanh_gelu = true};
}

std::unique_ptr<Mixer> MakeChannelMixer(const ChannelMixerConfig& config,
                                        const MixerContext& context, const ParameterScope& scope) {
  switch (config.kind) {
    case ChannelMixerKind::kIdentity:
      return nullptr;
    case ChannelMixerKind::kMlp:
    case ChannelMixerKind::kSwiglu:
      return std::make_unique<FeedForward>(config, context.d_model, scope);
    case ChannelMixerKind::kRwkv:
    case ChannelMixerKind::kRwkv7:
      return std::make_unique<RwkvChannelMixer>(config, context, scope);
  }
  Require(false, "unknown channel mixer");
  return nullptr;
}

}  // namespace mixerbench::models
