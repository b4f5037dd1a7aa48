// What stands after a sequence mixer and maps over channels: nothing, an MLP, a gated linear unit,
// or one of RWKV's, which see the token before as well. Each is a Mixer like those over time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "base/fields.h"
#include "models/mixer.h"
#include "models/parameters.h"

namespace mixerbench::models {

enum class ChannelMixerKind {
  kIdentity,
  kMlp,     // fc2(gelu(fc1 x))
  kSwiglu,  // fc2(silu(a) * b), [a, b] = fc1 x
  // sigmoid(receptance x_r) * value(relu(key x_k)^2) of RWKV-5 and RWKV-6, with the token shift
  // x_c = x + (x_before - x) * m_c.
  kRwkv,
  kRwkv7,  // value(relu(key x_k)^2)
};

struct ChannelMixerConfig {
  ChannelMixerKind kind = ChannelMixerKind::kIdentity;
  std::int64_t inner_dim = 0;
  bool bias = false;       // of fc1 and fc2; RWKV's have none
  bool tanh_gelu = false;  // the MLP's GELU by its tanh approximation
};

// In steps of what MAD's swiglu is sized.
inline constexpr std::int64_t kMadSwigluStep = 16;

// As MAD and RWKV size them, without biases, tanh GELU; inner_dim 0: 4 d_model for mlp and rwkv7,
// 8/3 d_model in steps of `swiglu_step` upwards for swiglu, 7/2 d_model in steps of 32 downwards
// for rwkv.
ChannelMixerConfig MadChannelMixer(ChannelMixerKind kind, std::int64_t inner_dim,
                                   std::int64_t d_model, std::int64_t swiglu_step = kMadSwigluStep);

// nullptr for kIdentity. RWKV's have one state, "shift"; the others have none and take x of any
// leading sizes.
std::unique_ptr<Mixer> MakeChannelMixer(const ChannelMixerConfig& config,
                                        const MixerContext& context, const ParameterScope& scope);

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::ChannelMixerKind> {
  using E = mixerbench::models::ChannelMixerKind;
  static constexpr std::pair<E, std::string_view> kNames[] = {{E::kIdentity, "identity"},
                                                              {E::kMlp, "mlp"},
                                                              {E::kSwiglu, "swiglu"},
                                                              {E::kRwkv, "rwkv"},
                                                              {E::kRwkv7, "rwkv7"}};
};
