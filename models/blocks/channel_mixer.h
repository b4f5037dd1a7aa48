// Maps over channels that stand after a sequence mixer: none, MLP, or gated linear unit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "models/blocks/linear.h"
#include "models/parameters.h"

namespace mixerbench::models {

enum class ChannelMixerKind {
  kIdentity,
  kMlp,     // fc2(gelu(fc1 x))
  kSwiglu,  // fc2(silu(a) * b), [a, b] = fc1 x
};

struct ChannelMixerConfig {
  ChannelMixerKind kind = ChannelMixerKind::kIdentity;
  std::int64_t inner_dim = 0;
  bool bias = false;
  bool tanh_gelu = false;  // the MLP's GELU by its tanh approximation
};

class ChannelMixer {
 public:
  ChannelMixer(const ChannelMixerConfig& config, std::int64_t d_model, const ParameterScope& scope);

  // x [B,T,D] -> [B,T,D].
  at::Tensor operator()(const at::Tensor& x, kernels::ExecutionPath path) const;

 private:
  ChannelMixerKind kind_;
  bool tanh_gelu_;
  std::optional<Linear> fc1_;
  std::optional<Linear> fc2_;
};

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::ChannelMixerKind> {
  using E = mixerbench::models::ChannelMixerKind;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kIdentity, "identity"}, {E::kMlp, "mlp"}, {E::kSwiglu, "swiglu"}};
};
