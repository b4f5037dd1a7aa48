// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/norms.h"

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "base/check.h"
#include "models/blocks/dtype.h"

namespace mixerbench::models {
namespace {

at::Tensor Ones(const ParameterScope& scope, std::int64_t width) {
  return scope.Add("weight", {width}, ParameterRole::kNormWeight, Init::Constant(1));
}

}  // namespace

RmsNorm::RmsNorm(const ParameterScope& scope, std::int64_t width, double eps)
    : weight_(Ones(scope, width)), eps_(eps) {}

at::Tensor RmsNorm::operator()(const at::Tensor& x) const {
  return at::rms_norm(x, weight_.sizes(), weight_.to(x.scalar_type()), eps_);
}

LayerNorm::LayerNorm(const ParameterScope& scope, std::int64_t width, double eps)
    : weight_(Ones(scope, width)),
      bias_(scope.Add("bias", {width}, ParameterRole::kNormBias, Init::Constant(0))),
      eps_(eps) {}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x, weight_.sizes(), weight_.to(x.scalar_type()), bias_.to(x.scalar_type()),
                        eps_);
}

OutputNorm::OutputNorm(const ParameterScope& scope, std::int64_t head_dim, double eps,
                       OutputGate gate)
    : norm_(scope, head_dim, eps), gate_(gate) {}

at::Tensor OutputNorm::operator()(const at::Tensor& x, const at::Tensor& z) const {
  Require(z.defined() == (gate_ != OutputGate::kNone), "a gated norm takes a gate, others do not");
  const at::Tensor normalised = norm_(x);
  switch (gate_) {
    case OutputGate::kNone:
      return normalised;
    case OutputGate::kSilu:
      return normalised * at::silu(z);
    case OutputGate::kSigmoid:
      return normalised * at::sigmoid(z);
  }
  Require(false, "unknown output gate");
  return {};
}

at::Tensor L2Norm(const at::Tensor& x, double eps) {
  const at::Tensor wide = AtLeastFloat(x);
  const at::Tensor scale = (wide * wide).sum(-1, /*keepdim=*/true).add(eps).rsqrt();
  return (wide * scale).to(x.scalar_type());
}

}  // namespace mixerbench::models
