// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/base_conv/base_conv.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "models/blocks/config_checks.h"
#include "models/blocks/linear.h"
#include "models/blocks/short_convolution.h"
#include "models/mixer_entry.h"
#include "models/mixers/base_conv/implicit_convolution.h"

namespace mixerbench::models::base_conv {
namespace {

constexpr std::int64_t kLong = -1;

const Fields<BaseConvConfig>& ConfigFields() {
  static const auto fields =
      Fields<BaseConvConfig>()
          .Add("kernel_sizes", &BaseConvConfig::kernel_sizes,
               "layer i uses kernel_sizes[i mod size]; -1: an implicit filter as long as the input")
          .Add("use_act", &BaseConvConfig::use_act, "silu on both factors");
  return fields;
}

class BaseConv final : public Mixer {
 public:
  BaseConv(std::int64_t kernel_size, bool use_act, const MixerContext& context,
           const ParameterScope& scope)
      : use_act_(use_act), proj_(scope.Child("proj"), context.d_model, context.d_model, true) {
    if (kernel_size == kLong) {
      long_.emplace(scope.Child("conv"), context.d_model, context.max_seq_len);
    } else {
      short_.emplace(scope.Child("conv"), context.d_model, kernel_size, /*bias=*/true);
    }
  }

  MixerOutput Forward(const at::Tensor& x, const ForwardOptions& options) const override {
    const State* initial = options.initial_state;
    MixerOutput output;
    at::Tensor convolved;
    if (short_) {
      const auto result = (*short_)(x, initial != nullptr ? initial->at("conv") : at::Tensor(),
                                    {.path = options.path});
      convolved = result.y;
      if (options.want_final_state) output.final_state["conv"] = result.history;
    } else {
      const at::Tensor inputs =
          initial != nullptr ? at::cat({initial->at("inputs").to(x.scalar_type()), x}, 1) : x;
      convolved = (*long_)(inputs, x.size(1), options.path);
      if (options.want_final_state) output.final_state["inputs"] = inputs;
    }
    at::Tensor gate = proj_(x, options.path);
    if (use_act_) {
      convolved = at::silu(convolved);
      gate = at::silu(gate);
    }
    output.y = convolved * gate + x;
    return output;
  }

  State InitialState(std::int64_t batch_size) const override {
    if (short_) return {{"conv", short_->InitialHistory(batch_size)}};
    return {{"inputs", at::zeros({batch_size, 0, proj_.weight().size(0)},
                                 proj_.weight().options().requires_grad(false))}};
  }

  StateSize state_size(std::int64_t num_tokens) const override {
    if (short_) return {.recurrent = 0, .conv = short_->width() * short_->channels()};
    return {.recurrent = proj_.weight().size(0) * num_tokens, .conv = 0};
  }

  std::int64_t max_seq_len() const override { return long_ ? long_->max_seq_len() : 0; }

 private:
  bool use_act_;
  Linear proj_;
  std::optional<ShortConvolution> short_;
  std::optional<ImplicitConvolution> long_;
};

std::unique_ptr<Mixer> Make(const BaseConvConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  if (config.kernel_sizes.empty()) {
    throw ConfigError(where + "/kernel_sizes", "must hold at least one size");
  }
  for (std::size_t i = 0; i < config.kernel_sizes.size(); ++i) {
    if (config.kernel_sizes[i] == kLong) continue;
    CheckRange(config.kernel_sizes[i], 1, 1024, where, "kernel_sizes/" + std::to_string(i));
  }
  const std::size_t index =
      static_cast<std::size_t>(context.layer_index) % config.kernel_sizes.size();
  return std::make_unique<BaseConv>(config.kernel_sizes[index], config.use_act, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "BaseConv: a convolution times a linear gate, short or as long as the input";
  entry.source = "arXiv 2312.04927 (section 4), HazyResearch/zoology d88d6f5";
  entry.test_configs = {
      Object{{"kernel_sizes", Array{-1}}},
      Object{{"kernel_sizes", Array{1}}, {"use_act", true}},
  };
  registry.Add("base_conv", std::move(entry));
}

}  // namespace mixerbench::models::base_conv
