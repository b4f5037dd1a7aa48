// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/channel_mixer.h"

#include <ATen/ops/gelu.h>

#include "base/check.h"
#include "kernels/fused/gates.h"

namespace mixerbench::models {

ChannelMixer::ChannelMixer(const ChannelMixerConfig& config, std::int64_t d_model,
                           const ParameterScope& scope)
    : kind_(config.kind), tanh_gelu_(config.tanh_gelu) {
  if (kind_ == ChannelMixerKind::kIdentity) return;
  const std::int64_t fan_out = kind_ == ChannelMixerKind::kSwiglu ? 2 : 1;
  fc1_.emplace(scope.Child("fc1"), d_model, fan_out * config.inner_dim, config.bias);
  fc2_.emplace(scope.Child("fc2"), config.inner_dim, d_model, config.bias);
}

at::Tensor ChannelMixer::operator()(const at::Tensor& x, kernels::ExecutionPath path) const {
  switch (kind_) {
    case ChannelMixerKind::kIdentity:
      return x;
    case ChannelMixerKind::kMlp:
      return (*fc2_)(at::gelu((*fc1_)(x, path), tanh_gelu_ ? "tanh" : "none"), path);
    case ChannelMixerKind::kSwiglu:
      return (*fc2_)(kernels::fused::Swiglu((*fc1_)(x, path), path), path);
  }
  Require(false, "unknown channel mixer");
  return {};
}

}  // namespace mixerbench::models
