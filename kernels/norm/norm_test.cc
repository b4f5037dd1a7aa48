// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include <ATen/TensorOperators.h>

#include "kernels/norm/output_norm.h"
#include "kernels/norm/residual_norm.h"
#include "kernels/norm/residual_norm_cuda.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::GradientCheckError;
using testing::Longs;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;       // a few roundings at 1e-16
constexpr double kGradientCheckTolerance = 1e-7;  // docs/NUMERICS.md

TEST_CASE("residual norm: the stream, zoology's identity mixer and both norms") {
  const at::Tensor residual = RandomNormal({2, 3, 5}, 1);
  const at::Tensor added = RandomNormal({2, 3, 5}, 2);
  const Norm mid{RandomNormal({5}, 3), RandomNormal({5}, 4), 1e-5};
  const Norm norm{RandomNormal({5}, 5), RandomNormal({5}, 6), 1e-3};
  const auto layer_norm = [](const Norm& n, const at::Tensor& x) {
    const at::Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + n.eps).sqrt() * n.weight + n.bias;
  };
  const at::Tensor s = residual + added;
  const auto plain = ResidualNorm({.residual = residual, .added = added, .norm = norm});
  CHECK(RelativeError(plain.residual, s) < kFloat64Tolerance);
  CHECK(RelativeError(plain.normalised, layer_norm(norm, s)) < kFloat64Tolerance);
  const at::Tensor u = s + layer_norm(mid, s);
  const auto both = ResidualNorm({.residual = residual, .added = added, .mid = mid, .norm = norm});
  CHECK(RelativeError(both.residual, u) < kFloat64Tolerance);
  CHECK(RelativeError(both.normalised, layer_norm(norm, u)) < kFloat64Tolerance);
  const auto rms = ResidualNorm({.added = added, .norm = {.weight = norm.weight, .eps = 1e-3}});
  const at::Tensor root = (added.square().mean(-1, true) + 1e-3).sqrt();
  CHECK(RelativeError(rms.normalised, added / root * norm.weight) < kFloat64Tolerance);
}

TEST_CASE("residual norm: a stream in bf16 is added and normalised in fp32") {
  const at::Tensor residual = RandomNormal({50, 16}, 1).to(at::kBFloat16);
  const at::Tensor added = RandomNormal({50, 16}, 2).to(at::kBFloat16);
  const Norm norm{RandomNormal({16}, 3, at::kFloat), RandomNormal({16}, 4, at::kFloat), 1e-5};
  const auto narrow = ResidualNorm({.residual = residual, .added = added, .norm = norm});
  const auto wide = ResidualNorm(
      {.residual = residual.to(at::kFloat), .added = added.to(at::kFloat), .norm = norm});
  CHECK(BitwiseEqual(narrow.residual, wide.residual.to(at::kBFloat16)));
  CHECK(BitwiseEqual(narrow.normalised, wide.normalised.to(at::kBFloat16)));
}

TEST_CASE("residual norm: gradients") {
  const std::vector<at::Tensor> inputs = {RandomNormal({2, 3, 4}, 1), RandomNormal({2, 3, 4}, 2),
                                          RandomNormal({4}, 3),       RandomNormal({4}, 4),
                                          RandomNormal({4}, 5),       RandomNormal({4}, 6)};
  const auto function = [](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    const auto result = ResidualNorm({.residual = x[0],
                                      .added = x[1],
                                      .mid = Norm{x[2], x[3], 1e-5},
                                      .norm = {x[4], x[5], 1e-5}});
    return {result.residual, result.normalised};
  };
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
}

TEST_CASE("residual norm: a stream of which some rows are kept") {
  const ScoredPositions scored{Longs({4, 1, 0, 0}), Longs({2, 1, 4, 4, 0, 4})};
  const auto function = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    const auto result = ResidualNorm({.added = x[0], .norm = {x[1]}, .scored = &scored});
    return {result.residual.narrow(0, 0, 3), result.normalised};
  };
  const std::vector<at::Tensor> inputs = {RandomNormal({2, 3, 4}, 1), RandomNormal({4}, 2)};
  CHECK(
      BitwiseEqual(function(inputs)[0], inputs[0].flatten(0, 1).index_select(0, Longs({4, 1, 0}))));
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
}

TEST_CASE("residual norm: which rows a device function takes") {
  CHECK(ResidualNormSupports(1000, 64));
  CHECK(ResidualNormSupports(1, 512));
  CHECK_FALSE(ResidualNormSupports(1, 0));
  CHECK_FALSE(ResidualNormSupports(1, 60));
  CHECK_FALSE(ResidualNormSupports(1, 520));
  CHECK_FALSE(ResidualNormSupports(1LL << 30, 64));
}

TEST_CASE("output norm: formula and gradients of every gate") {
  const at::Tensor x = RandomNormal({2, 3, 2, 5}, 1);
  const at::Tensor gate = RandomNormal({2, 3, 2, 5}, 2);
  const at::Tensor weight = RandomNormal({5}, 3);
  const auto rms_norm = [&](const at::Tensor& z) {
    return z / (z.square().mean(-1, true) + 1e-5).sqrt() * weight;
  };
  const at::Tensor rms = rms_norm(x);
  const auto norm = [](GateActivation activation, bool gate_before_norm = false) {
    return [=](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
      return {OutputNorm({.x = in[0],
                          .gate = in[2],
                          .weight = in[1],
                          .activation = activation,
                          .gate_before_norm = gate_before_norm})};
    };
  };
  const auto none = norm(GateActivation::kNone);
  const auto silu = norm(GateActivation::kSilu);
  const auto sigmoid = norm(GateActivation::kSigmoid);
  CHECK(RelativeError(none({x, weight, {}})[0], rms) < kFloat64Tolerance);
  CHECK(RelativeError(silu({x, weight, gate})[0], rms * gate * gate.sigmoid()) < kFloat64Tolerance);
  CHECK(RelativeError(sigmoid({x, weight, gate})[0], rms * gate.sigmoid()) < kFloat64Tolerance);
  CHECK(GradientCheckError(silu, {x, weight, gate}) < kGradientCheckTolerance);
  CHECK(GradientCheckError(sigmoid, {x, weight, gate}) < kGradientCheckTolerance);
  const auto gate_first = norm(GateActivation::kSilu, /*gate_before_norm=*/true);
  CHECK(RelativeError(gate_first({x, weight, gate})[0], rms_norm(x * gate * gate.sigmoid())) <
        kFloat64Tolerance);
  CHECK(GradientCheckError(gate_first, {x, weight, gate}) < kGradientCheckTolerance);
}

}  // namespace
}  // namespace mixerbench::kernels
