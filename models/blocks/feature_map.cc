// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/feature_map.h"

#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/triu_indices.h>

#include "base/check.h"
#include "base/error.h"
#include "models/blocks/dtype.h"

namespace mixerbench::models {
namespace {

constexpr std::int64_t kDpfpRolls = 4;

// [1, x/D^(1/4), x_i x_j/sqrt(D) for i < j and x_i^2/sqrt(2D)].
at::Tensor Taylor(const at::Tensor& x) {
  const std::int64_t dim = x.size(-1);
  const double root = std::sqrt(static_cast<double>(dim));
  const at::Tensor pairs =
      at::triu_indices(dim, dim, 0, at::TensorOptions(x.device()).dtype(at::kLong));
  const at::Tensor row = pairs[0];
  const at::Tensor column = pairs[1];
  const double mixed = 1 / root;
  const double square = 1 / (std::sqrt(2.0) * root);
  const at::Tensor weight = (row == column).to(x.scalar_type()) * (square - mixed) + mixed;
  return at::cat({at::ones_like(x.narrow(-1, 0, 1)), x * (1 / std::sqrt(root)),
                  x.index_select(-1, row) * x.index_select(-1, column) * weight},
                 -1);
}

at::Tensor Dpfp(const at::Tensor& x) {
  const at::Tensor r = at::relu(at::cat({x, -x}, -1));
  std::vector<at::Tensor> parts;
  for (std::int64_t j = 1; j <= kDpfpRolls; ++j) parts.push_back(r * at::roll(r, j, -1));
  return at::cat(parts, -1);
}

}  // namespace

FeatureMap::FeatureMap(FeatureMapKind kind, std::int64_t input_dim, const ParameterScope& scope)
    : kind_(kind), input_dim_(input_dim) {
  if (kind == FeatureMapKind::kElementwiseProduct) {
    linear_.emplace(scope, input_dim, 2 * input_dim, /*bias=*/true);  // W1 above W2
  } else if (kind == FeatureMapKind::kT2r) {
    linear_.emplace(scope, input_dim, input_dim, /*bias=*/true);
  } else if (kind == FeatureMapKind::kHedgehog) {
    hedgehog_weight_ =
        scope.AddSpecial("weight", at::eye(input_dim, at::TensorOptions(at::kDouble)));
    hedgehog_bias_ = scope.AddSpecial("bias", {input_dim}, Init::Constant(0));
  }
}

at::Tensor FeatureMap::operator()(const at::Tensor& x, kernels::ExecutionPath path) const {
  switch (kind_) {
    case FeatureMapKind::kIdentity:
      return x;
    case FeatureMapKind::kElu1:
      return at::elu(x) + 1;
    case FeatureMapKind::kRelu:
      return at::relu(x);
    case FeatureMapKind::kSilu:
      return at::silu(x);
    case FeatureMapKind::kElementwiseProduct: {
      const std::vector<at::Tensor> halves = (*linear_)(x, path).chunk(2, -1);
      return halves[0] * halves[1];
    }
    case FeatureMapKind::kT2r:
      return at::relu((*linear_)(x, path));
    case FeatureMapKind::kHedgehog: {
      const at::Tensor wide = AtLeastFloat(x);
      const at::Tensor z = 2 * at::linear(wide, hedgehog_weight_, hedgehog_bias_);
      return at::softmax(at::cat({z, -z}, -1), -1).to(x.scalar_type());
    }
    case FeatureMapKind::kDpfp:
      return Dpfp(x);
    case FeatureMapKind::kTaylor:
      return Taylor(x);
  }
  Require(false, "unknown feature map");
  return {};
}

std::int64_t FeatureMap::output_dim() const {
  switch (kind_) {
    case FeatureMapKind::kHedgehog:
      return 2 * input_dim_;
    case FeatureMapKind::kDpfp:
      return 2 * input_dim_ * kDpfpRolls;
    case FeatureMapKind::kTaylor:
      return 1 + input_dim_ + input_dim_ * (input_dim_ + 1) / 2;
    default:
      return input_dim_;
  }
}

FeatureMap ChannelFeatureMap(FeatureMapKind kind, std::int64_t input_dim,
                             const ParameterScope& scope, const std::string& option) {
  FeatureMap map(kind, input_dim, scope.Child("feature_map"));
  if (map.output_dim() != input_dim) throw ConfigError(option, "must keep the number of channels");
  return map;
}

}  // namespace mixerbench::models
