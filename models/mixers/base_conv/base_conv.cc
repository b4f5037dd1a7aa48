// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/base_conv/base_conv.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "base/error.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/dtype.h"
#include "models/blocks/implicit_convolution.h"
#include "models/blocks/linear.h"
#include "models/blocks/long_convolution.h"
#include "models/blocks/short_convolution.h"
#include "models/mixer_entry.h"

namespace mixerbench::models::base_conv {
namespace {

constexpr std::int64_t kLong = -1;

const Fields<BaseConvConfig>& ConfigFields() {
  static const auto fields =
      Fields<BaseConvConfig>()
          .Add("kernel_sizes", &BaseConvConfig::kernel_sizes,
               "layer i uses kernel_sizes[i mod size]; -1: a filter as long as the input")
          .Add("long_filter", &BaseConvConfig::long_filter,
               "that filter: implicit: a small network of the position; explicit: free parameters")
          .Add("use_act", &BaseConvConfig::use_act, "silu on both factors")
          .Add("expand", &BaseConvConfig::expand,
               "0: a linear gate and a residual; else channels per channel of d_model of a "
               "projection, one half of which is convolved, with silu, the other its gate");
  return fields;
}

// The convolution of either length with its state.
class Convolution {
 public:
  Convolution(const BaseConvConfig& config, std::int64_t kernel_size, std::int64_t channels,
              const MixerContext& context, const ParameterScope& scope)
      : channels_(channels), max_seq_len_(context.max_seq_len) {
    if (kernel_size != kLong) {
      short_.emplace(scope, channels, kernel_size, /*bias=*/true);
    } else if (config.long_filter == LongFilter::kImplicit) {
      implicit_.emplace(scope, channels, context.max_seq_len);
    } else {
      filter_ = scope.Add("filter", {channels, context.max_seq_len}, ParameterRole::kOwnWeight,
                          Init::Normal(1));
    }
  }

  std::int64_t max_seq_len() const { return short_ ? 0 : max_seq_len_; }

  State InitialState(std::int64_t batch_size, const at::TensorOptions& options) const {
    if (short_) return History(short_->InitialHistory(batch_size));
    return Inputs(at::zeros({batch_size, 0, channels_}, options));
  }

  // Leaves the final state in `mixed` if wanted.
  at::Tensor operator()(const at::Tensor& x, const MixerOptions& options, Mixed& mixed) const {
    if (short_) {
      const auto result = (*short_)(x, Find(options.initial_state, "conv"), options.path);
      if (options.want_final_state) mixed.final_state = History(result.history);
      return result.y;
    }
    const at::Tensor old = Find(options.initial_state, "inputs");
    const at::Tensor all = old.defined() ? at::cat({old.to(x.scalar_type()), x}, 1) : x;
    if (options.want_final_state) mixed.final_state = Inputs(all);
    return implicit_ ? (*implicit_)(all, x.size(1), options.path)
                     : Explicit(all, x.size(1), options.path);
  }

 private:
  static State History(const at::Tensor& history) {
    return {.tensors = {{"conv", {history, StateKind::kConvolution}}}};
  }
  static State Inputs(const at::Tensor& inputs) {
    return {.tensors = {{"inputs", {inputs, StateKind::kCache}}}};
  }

  at::Tensor Explicit(const at::Tensor& u, std::int64_t num_outputs, ExecutionPath path) const {
    const std::int64_t length = u.size(1);
    Require(length <= max_seq_len_, "the filter of base_conv is " + std::to_string(max_seq_len_) +
                                        " tokens long, the input " + std::to_string(length));
    const at::Tensor wide = AtLeastFloat(u);
    const at::Tensor filter = filter_.narrow(1, 0, length).t().to(wide.scalar_type());
    const at::Tensor last = wide.narrow(1, length - num_outputs, num_outputs);
    return (LongConvolution(wide, filter, num_outputs, path) + last).to(u.scalar_type());
  }

  std::int64_t channels_;
  std::int64_t max_seq_len_;
  std::optional<ShortConvolution> short_;
  std::optional<ImplicitConvolution> implicit_;
  at::Tensor filter_;  // [C,L]; undefined unless explicit
};

// conv(x) * (W x + b) + x
class BaseConv final : public Mixer {
 public:
  BaseConv(const BaseConvConfig& config, std::int64_t kernel_size, const MixerContext& context,
           const ParameterScope& scope)
      : use_act_(config.use_act),
        proj_(scope.Child("proj"), context.d_model, context.d_model, /*bias=*/true),
        conv_(config, kernel_size, context.d_model, context, scope.Child("conv")) {}

  MixerTraits traits() const override { return {.max_seq_len = conv_.max_seq_len()}; }

  State InitialState(std::int64_t batch_size) const override {
    return conv_.InitialState(batch_size, proj_.weight().options().requires_grad(false));
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    Mixed mixed;
    at::Tensor convolved = conv_(inputs.x, options, mixed);
    at::Tensor gate = proj_(inputs.x, options.path);
    if (use_act_) {
      convolved = at::silu(convolved);
      gate = at::silu(gate);
    }
    mixed.tokens = {{convolved * gate + inputs.x}};
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions&) const override {
    return mixed.tokens[0].value;
  }

 private:
  bool use_act_;
  Linear proj_;
  Convolution conv_;
};

// W_out (silu(conv(u)) * g) + b_out, [u, g] = W_in x + b_in
class ExpandedBaseConv final : public Mixer {
 public:
  ExpandedBaseConv(const BaseConvConfig& config, std::int64_t kernel_size,
                   const MixerContext& context, const ParameterScope& scope)
      : use_act_(config.use_act),
        channels_(config.expand * context.d_model / 2),
        in_proj_(scope.Child("in_proj"), context.d_model, 2 * channels_, /*bias=*/true),
        conv_(config, kernel_size, channels_, context, scope.Child("conv")) {
    if (!context.output_projection) return;
    out_proj_.emplace(scope.Child("out_proj"), channels_, context.d_model, /*bias=*/true,
                      ParameterRole::kResidualOutputWeight);
  }

  MixerTraits traits() const override {
    return {.max_seq_len = conv_.max_seq_len(),
            .output_dim = out_proj_ ? out_proj_->weight().size(0) : channels_};
  }

  State InitialState(std::int64_t batch_size) const override {
    return conv_.InitialState(batch_size, in_proj_.weight().options().requires_grad(false));
  }

  Mixed Mix(const MixerInputs& inputs, const MixerOptions& options) const override {
    Mixed mixed;
    const auto halves = in_proj_.Columns(inputs.x, {channels_, {channels_, /*only_scored=*/true}},
                                         options.scored, options.path);
    mixed.tokens = {{at::silu(conv_(halves[0], options, mixed))},
                    {halves[1], /*selected=*/options.scored != nullptr}};
    return mixed;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    const at::Tensor& gate = mixed.tokens[1].value;
    const at::Tensor y = mixed.tokens[0].value * (use_act_ ? at::silu(gate) : gate);
    return out_proj_ ? (*out_proj_)(y, options.path) : y;
  }

 private:
  bool use_act_;
  std::int64_t channels_;
  Linear in_proj_;
  Convolution conv_;
  std::optional<Linear> out_proj_;
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
  CheckRange(config.expand, 0, 64, where, "expand");
  const std::size_t index =
      static_cast<std::size_t>(context.layer_index) % config.kernel_sizes.size();
  const std::int64_t kernel_size = config.kernel_sizes[index];
  if (config.expand == 0) return std::make_unique<BaseConv>(config, kernel_size, context, scope);
  DivideExactly(config.expand * context.d_model, 2, where, "expand", "channels of the projection,");
  return std::make_unique<ExpandedBaseConv>(config, kernel_size, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry = MakeMixerEntry(ConfigFields(), Make);
  entry.summary = "BaseConv: a convolution times a linear gate, short or as long as the input";
  entry.source = "arXiv 2312.04927 (section 4), HazyResearch/zoology d88d6f5; 2402.18668";
  entry.test_configs = {
      Object{{"kernel_sizes", Array{-1}}},
      Object{{"kernel_sizes", Array{1}}, {"use_act", true}},
      Object{{"kernel_sizes", Array{-1}}, {"long_filter", "explicit"}},
      Object{{"expand", 4}},
      Object{{"kernel_sizes", Array{-1}},
             {"long_filter", "explicit"},
             {"expand", 1},
             {"use_act", true}},
  };
  registry.Add("base_conv", std::move(entry));
}

}  // namespace mixerbench::models::base_conv
