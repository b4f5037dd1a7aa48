// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/norms.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>

#include "base/check.h"
#include "kernels/norm/output_norm.h"
#include "models/blocks/dtype.h"

namespace mixerbench::models {
namespace {

using kernels::GateActivation;

GateActivation ActivationOf(OutputGate gate) {
  switch (gate) {
    case OutputGate::kNone:
      return GateActivation::kNone;
    case OutputGate::kSilu:
      return GateActivation::kSilu;
    case OutputGate::kSigmoid:
      return GateActivation::kSigmoid;
    case OutputGate::kPlain:
      break;
  }
  Require(false, "not a gate of this norm");
  return GateActivation::kNone;
}

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
                       OutputGate gate, bool gate_before_norm)
    : norm_(scope, head_dim, eps), eps_(eps), gate_(gate), gate_before_norm_(gate_before_norm) {}

at::Tensor OutputNorm::operator()(const at::Tensor& x, const at::Tensor& z,
                                  kernels::ExecutionPath path) const {
  if (x.dim() == 3) {  // selected tokens: as if of one sequence
    return (*this)(x.unsqueeze(0), z.defined() ? z.unsqueeze(0) : z, path).squeeze(0);
  }
  const at::Tensor y =
      kernels::OutputNorm({.x = x,
                           .gate = z.defined() ? z.unflatten(-1, {x.size(2), x.size(3)}) : z,
                           .weight = norm_.weight(),
                           .eps = eps_,
                           .activation = ActivationOf(gate_),
                           .gate_before_norm = gate_before_norm_},
                          path);
  return y.flatten(2);
}

at::Tensor L2Norm(const at::Tensor& x, double eps) {
  const at::Tensor wide = AtLeastFloat(x);
  const at::Tensor scale = (wide * wide).sum(-1, /*keepdim=*/true).add(eps).rsqrt();
  return (wide * scale).to(x.scalar_type());
}

}  // namespace mixerbench::models
