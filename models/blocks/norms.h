// Normalisations over the last axis; statistics in float32 at least.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/fields.h"
#include "kernels/core.h"
#include "kernels/norm/residual_norm.h"
#include "models/parameters.h"

namespace mixerbench::models {

// y = weight * x / sqrt(mean(x^2) + eps).
class RmsNorm {
 public:
  RmsNorm(const ParameterScope& scope, std::int64_t width, double eps);
  at::Tensor operator()(const at::Tensor& x) const;

  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
  double eps_;
};

// y = weight * (x - mean) / sqrt(var + eps) + bias, biased variance.
class LayerNorm {
 public:
  LayerNorm(const ParameterScope& scope, std::int64_t width, double eps);
  at::Tensor operator()(const at::Tensor& x) const;

  // For functions that add and normalise in one pass.
  kernels::Norm parameters() const { return {weight_, bias_, eps_}; }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
  double eps_;
};

enum class OutputGate {
  kNone,
  kSilu,
  kSigmoid,
  kPlain,  // the gate itself
};

// Norm of what each head reads: RmsNorm(x), times act(z) when gated, or RmsNorm(x act(z)).
class OutputNorm {
 public:
  OutputNorm(const ParameterScope& scope, std::int64_t head_dim, double eps, OutputGate gate,
             bool gate_before_norm = false);

  // x [...,H,V]; z [...,H V], undefined without a gate -> [...,H V], dtype of x.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& z,
                        kernels::ExecutionPath path) const;

 private:
  RmsNorm norm_;
  double eps_;
  OutputGate gate_;
  bool gate_before_norm_;
};

// x * (sum(x^2) + eps)^-1/2: eps inside the root, as every delta-rule kernel has it.
at::Tensor L2Norm(const at::Tensor& x, double eps = 1e-6);

}  // namespace mixerbench::models

template <>
struct mixerbench::EnumNames<mixerbench::models::OutputGate> {
  using E = mixerbench::models::OutputGate;
  static constexpr std::pair<E, std::string_view> kNames[] = {
      {E::kNone, "none"}, {E::kSilu, "silu"}, {E::kSigmoid, "sigmoid"}};
};
