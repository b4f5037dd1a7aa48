// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/rwkv7/rwkv7_parameters.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear/linear.h"
#include "models/blocks/dtype.h"
#include "models/blocks/linear.h"

namespace mixerbench::models::rwkv7 {
namespace {

constexpr double kUpGain = 0.1;

}  // namespace

std::int64_t RoundedRank(double dim) {
  return std::max<std::int64_t>(32, 32 * static_cast<std::int64_t>(std::nearbyint(dim / 32)));
}

Rwkv7Config WithRanks(const Rwkv7Config& config, std::int64_t d_model) {
  const double root = std::sqrt(static_cast<double>(d_model));
  const double per_64 = static_cast<double>(d_model / config.num_heads) / 64;
  Rwkv7Config result = config;
  const auto fill = [](std::int64_t& rank, double formula) {
    if (rank == 0) rank = RoundedRank(formula);
  };
  fill(result.decay_low_rank_dim, 2.5 * root * per_64);
  fill(result.a_low_rank_dim, 2.5 * root * per_64);
  fill(result.v_low_rank_dim, 1.7 * root * per_64);
  fill(result.gate_low_rank_dim, 5 * root);
  return result;
}

StartValues StartValuesOf(const MixerContext& context, std::int64_t num_heads) {
  const auto d = static_cast<double>(context.d_model);
  const std::int64_t head_dim = context.d_model / num_heads;
  const auto layer = static_cast<double>(context.layer_index);
  const auto num_layers = static_cast<double>(context.num_layers);
  const double depth = context.num_layers > 1 ? layer / (num_layers - 1) : 0;  // 0 to 1
  const double remaining = 1 - layer / num_layers;                             // 1 to almost 0

  const at::Tensor index = at::arange(context.d_model, at::kDouble);
  const at::Tensor ramp = index / std::max(d - 1, 1.0);  // 0 to 1
  const at::Tensor centred = ramp - 0.5;
  const double half = static_cast<double>(head_dim - 1) / 2;
  const at::Tensor in_head = head_dim > 1
                                 ? (index.remainder(static_cast<double>(head_dim)) - half) / half
                                 : at::zeros_like(index);  // -1 to 1
  const at::Tensor curve = in_head * in_head.abs();

  StartValues start;
  std::vector<at::Tensor> mixes;
  for (const double exponent : {0.2, 0.9, 0.7, 0.7, 0.9, 0.2}) {
    mixes.push_back(1 - (index / d).pow(exponent * remaining));
  }
  start.token_mix = at::stack(mixes);
  start.decay_bias = -6 + 6 * ramp.pow(1 + std::pow(depth, 0.3)) + 0.5 + 2.5 * curve;
  start.a_bias = -0.19 + 0.3 * curve + 0.4 * centred;
  start.v_bias = 0.73 - 0.4 * centred;
  start.k_k = 0.71 - 0.1 * centred;
  start.k_a = at::full_like(index, 1.02);
  start.norm_weight = std::pow((layer + 1) / num_layers, 0.7);
  return start;
}

at::Tensor DrawOrthogonal(const ParameterScope& scope, std::string_view name, std::int64_t rows,
                          std::int64_t cols, double gain) {
  const at::Tensor draws =
      scope.Draw(name, {std::max(rows, cols), std::min(rows, cols)}, Init::Normal(1));
  const auto [q, r] = at::linalg_qr(draws);
  // Of the factorisations, the one whose R has a positive diagonal: unique, and so uniform.
  const at::Tensor columns = q * r.diagonal().sign();
  return gain * (rows >= cols ? columns : columns.t());
}

at::Tensor AddProjection(const ParameterScope& scope, std::string_view name, std::int64_t width,
                         double gain, Rwkv7Init init) {
  if (init == Rwkv7Init::kBackbone) {
    return scope.Add(name, {width, width}, ParameterRole::kLinearWeight, FanInUniform(width));
  }
  at::Tensor weight =
      scope.Add(name, {width, width}, ParameterRole::kOwnLinearWeight, Init::Constant(0));
  if (weight.is_meta()) return weight;  // of a model that is only planned
  const at::NoGradGuard no_grad;
  // A policy that draws these layers too has replaced the zeros.
  if (!weight.any().item<bool>()) weight.copy_(DrawOrthogonal(scope, name, width, width, gain));
  return weight;
}

LowRankMap::LowRankMap(const ParameterScope& scope, std::string_view name, std::int64_t d_model,
                       std::int64_t rank, Inner inner, const at::Tensor& bias, Rwkv7Init init)
    : inner_(inner) {
  const std::string down = std::string(name) + "_down";
  const std::string up = std::string(name) + "_up";
  if (init == Rwkv7Init::kBackbone) {
    down_ = scope.Add(down, {rank, d_model}, ParameterRole::kLinearWeight, FanInUniform(d_model));
    up_ = scope.Add(up, {d_model, rank}, ParameterRole::kLinearWeight, FanInUniform(rank));
  } else {
    down_ = scope.AddSpecial(down, {rank, d_model}, Init::Constant(0));
    const double gain =
        kUpGain *
        std::max(1.0, std::sqrt(static_cast<double>(rank) / static_cast<double>(d_model)));
    up_ = scope.AddSpecial(up, DrawOrthogonal(scope, up, d_model, rank, gain));
  }
  if (bias.defined()) bias_ = scope.AddSpecial(std::string(name) + "_bias", bias);
}

at::Tensor LowRankMap::operator()(const at::Tensor& x, kernels::ExecutionPath path) const {
  at::Tensor inner = kernels::Linear(x, down_, /*bias=*/{}, path);
  switch (inner_) {
    case Inner::kIdentity:
      break;
    case Inner::kTanh:
      inner = at::tanh(inner);
      break;
    case Inner::kSigmoid:
      inner = at::sigmoid(inner);
      break;
  }
  const at::Tensor y = kernels::Linear(inner, up_, /*bias=*/{}, path);
  return bias_.defined() ? AtLeastFloat(y) + bias_ : y;
}

}  // namespace mixerbench::models::rwkv7
