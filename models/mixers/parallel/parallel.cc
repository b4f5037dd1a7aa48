// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/parallel/parallel.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>

#include "base/error.h"
#include "base/fields.h"
#include "models/blocks/config_checks.h"
#include "models/blocks/holding_mixer.h"
#include "models/blocks/linear.h"
#include "models/blocks/norms.h"

namespace mixerbench::models::parallel {
namespace {

const Fields<ParallelConfig>& ConfigFields() {
  static const auto fields =
      Fields<ParallelConfig>()
          .Add("branches", &ParallelConfig::branches, "mixers that see the same tokens")
          .Add("norm_eps", &ParallelConfig::norm_eps, "eps of the norm after each branch");
  return fields;
}

ParallelConfig Parse(const Value& config, const std::string& where) {
  ParallelConfig parsed = ConfigFields().Parse(config, where);
  if (parsed.branches.empty()) {
    throw ConfigError(where + "/branches", "must name at least one mixer");
  }
  CheckEps(parsed.norm_eps, where, "norm_eps");
  return parsed;
}

class Parallel final : public HoldingMixer {
 public:
  Parallel(const ParallelConfig& config, const std::string& where, MixerContext context,
           const ParameterScope& scope) {
    const bool projects = context.output_projection;
    context.output_projection = false;
    for (std::size_t i = 0; i < config.branches.size(); ++i) {
      Add("branches." + std::to_string(i), config.branches[i], ItemPointer(where + "/branches", i),
          context, scope);
    }
    width_ = WidthOf(0, context);
    for (std::size_t i = 0; i < num_held(); ++i) {
      if (WidthOf(i, context) != width_) {
        throw ConfigError(ItemPointer(where + "/branches", i),
                          "its output has " + std::to_string(WidthOf(i, context)) +
                              " channels, that of the first branch " + std::to_string(width_));
      }
      norms_.emplace_back(scope.Child("norms." + std::to_string(i)), width_, config.norm_eps);
    }
    if (!projects) return;
    out_proj_.emplace(scope.Child("out_proj"), width_, context.d_model, /*bias=*/false,
                      ParameterRole::kResidualOutputWeight);
  }

  MixerTraits traits() const override {
    MixerTraits traits = HoldingMixer::traits();
    traits.output_dim = out_proj_ ? out_proj_->weight().size(0) : width_;
    return traits;
  }

  at::Tensor Output(const Mixed& mixed, const MixerOptions& options) const override {
    at::Tensor sum = norms_[0](OutputOf(0, mixed, options));
    for (std::size_t i = 1; i < num_held(); ++i) {
      sum = sum + norms_[i](OutputOf(i, mixed, options));
    }
    const at::Tensor mean = sum / static_cast<double>(num_held());
    return out_proj_ ? (*out_proj_)(mean, options.path) : mean;
  }

 private:
  std::int64_t WidthOf(std::size_t i, const MixerContext& context) const {
    const std::int64_t width = held(i).traits().output_dim;
    return width != 0 ? width : context.d_model;
  }

  std::int64_t width_ = 0;  // of every branch
  std::vector<RmsNorm> norms_;
  std::optional<Linear> out_proj_;
};

std::unique_ptr<Mixer> Make(const ParallelConfig& config, const std::string& where,
                            const MixerContext& context, const ParameterScope& scope) {
  return std::make_unique<Parallel>(config, where, context, scope);
}

}  // namespace

void Register(MixerRegistry& registry) {
  MixerEntry entry =
      MakeHoldingEntry(ConfigFields(), Parse, "branches", &ParallelConfig::branches, Make);
  entry.summary = "several mixers side by side in each layer, normalised and averaged";
  entry.source = "Hymba, arXiv 2411.13676";
  entry.test_configs = {
      Object{{"branches", Array{Object{{"name", "base_conv"}, {"kernel_sizes", Array{3}}},
                                Object{{"name", "delta_net"}}, Object{{"name", "parallel"}}}},
             {"norm_eps", 1e-6}},
  };
  registry.Add("parallel", std::move(entry));
}

}  // namespace mixerbench::models::parallel
