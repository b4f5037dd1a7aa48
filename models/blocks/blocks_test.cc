// Each block against its formula, written out.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "models/blocks/channel_mixer.h"
#include "models/blocks/decay.h"
#include "models/blocks/dropout.h"
#include "models/blocks/feature_map.h"
#include "models/blocks/linear.h"
#include "models/blocks/norms.h"
#include "models/blocks/short_convolution.h"
#include "models/blocks/write_strength.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models {
namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr double kDoubleTolerance = 1e-12;
constexpr auto kFast = kernels::ExecutionPath::kFast;

struct Scope {
  ParameterSet set{1, InitPolicy::kDefault, 2, at::kCPU, at::kDouble};
  ParameterScope root{set};
  const at::Tensor& operator[](std::size_t i) const { return set.parameters()[i].tensor; }
};

TEST_CASE("short convolution: the weighted sum of the last inputs, zeros before the first") {
  const at::NoGradGuard no_grad;
  Scope scope;
  const ShortConvolution conv(scope.root, /*channels=*/3, /*width=*/4, /*bias=*/true);
  const at::Tensor x = RandomNormal({2, 6, 3}, 1);
  at::Tensor expected = at::zeros({2, 6, 3}, x.options());
  for (std::int64_t t = 0; t < 6; ++t) {
    at::Tensor sum = scope[1].clone().expand({2, 3}).clone();
    for (std::int64_t m = 0; m < 4; ++m) {
      if (t - 3 + m >= 0) sum += scope[0].select(1, m) * x.select(1, t - 3 + m);
    }
    expected.select(1, t).copy_(sum);
  }
  const auto result = conv(x, {});
  CHECK(RelativeError(result.y, expected) < kDoubleTolerance);
  CHECK(result.history.equal(x.narrow(1, 3, 3)));
  CHECK(conv(x, conv.InitialHistory(2)).y.equal(result.y));
}

TEST_CASE("short convolution: the history of an input shorter than the kernel keeps older inputs") {
  const at::NoGradGuard no_grad;
  Scope scope;
  const ShortConvolution conv(scope.root, 3, 4, false);
  const at::Tensor x = RandomNormal({2, 2, 3}, 1);
  const at::Tensor history = RandomNormal({2, 3, 3}, 2);
  const at::Tensor next = conv(x, history).history;
  CHECK(next.narrow(1, 0, 1).equal(history.narrow(1, 2, 1)));
  CHECK(next.narrow(1, 1, 2).equal(x));
}

TEST_CASE("norms: formulas") {
  const at::NoGradGuard no_grad;
  Scope scope;
  const at::Tensor x = RandomNormal({2, 3, 2, 5}, 1);
  const at::Tensor z = RandomNormal({2, 3, 2, 5}, 2);
  const at::Tensor rms = x / (x.square().mean(-1, true) + 1e-5).sqrt();
  CHECK(RelativeError(RmsNorm(scope.root.Child("a"), 5, 1e-5)(x), rms) < kDoubleTolerance);
  const at::Tensor centred = x - x.mean(-1, true);
  CHECK(RelativeError(LayerNorm(scope.root.Child("b"), 5, 1e-5)(x),
                      centred / (centred.square().mean(-1, true) + 1e-5).sqrt()) <
        kDoubleTolerance);
  CHECK(RelativeError(L2Norm(x), x / (x.square().sum(-1, true) + 1e-6).sqrt()) < kDoubleTolerance);
  CHECK(
      RelativeError(OutputNorm(scope.root.Child("c"), 5, 1e-5, OutputGate::kSilu)(x, z.flatten(2)),
                    (rms * z * at::sigmoid(z)).flatten(2)) < kDoubleTolerance);
  CHECK(RelativeError(
            OutputNorm(scope.root.Child("d"), 5, 1e-5, OutputGate::kSigmoid)(x, z.flatten(2)),
            (rms * at::sigmoid(z)).flatten(2)) < kDoubleTolerance);
  CHECK(RelativeError(OutputNorm(scope.root.Child("e"), 5, 1e-5, OutputGate::kNone)(x, {}),
                      rms.flatten(2)) < kDoubleTolerance);
}

TEST_CASE("norms: statistics of bf16 inputs are those of float32") {
  const at::NoGradGuard no_grad;
  constexpr double kRounding = 1.0 / 128;  // bf16 input, weight and output
  Scope scope;
  const at::Tensor x = (RandomNormal({2, 4096}, 1) + 3).to(at::kBFloat16);
  const at::Tensor wide = x.to(at::kDouble);
  CHECK(RelativeError(RmsNorm(scope.root, 4096, 1e-5)(x),
                      wide / (wide.square().mean(-1, true) + 1e-5).sqrt()) < kRounding);
  CHECK(RelativeError(L2Norm(x), wide / (wide.square().sum(-1, true) + 1e-6).sqrt()) < kRounding);
}

TEST_CASE("feature maps: taylor is the second-order expansion of the exponential") {
  Scope scope;
  const FeatureMap map(FeatureMapKind::kTaylor, 5, scope.root);
  const at::Tensor q = RandomNormal({3, 5}, 1);
  const at::Tensor k = RandomNormal({3, 5}, 2);
  const at::Tensor s = (q * k).sum(-1) / std::sqrt(5.0);
  CHECK(RelativeError((map(q, kFast) * map(k, kFast)).sum(-1), 1 + s + s.square() / 2) <
        kDoubleTolerance);
  CHECK(map(q, kFast).size(-1) == map.output_dim());
}

TEST_CASE("feature maps: formulas and widths") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::tensor({-1.0, 2.0}, at::TensorOptions(at::kDouble)).view({1, 2});
  const auto check = [&](FeatureMapKind kind, std::vector<double> expected) {
    CAPTURE(NameOf(kind));
    Scope scope;
    const FeatureMap map(kind, 2, scope.root);
    const at::Tensor wanted = at::tensor(expected, at::TensorOptions(at::kDouble)).view({1, -1});
    CHECK(map.output_dim() == wanted.size(1));
    CHECK(RelativeError(map(x, kFast), wanted) < kDoubleTolerance);
  };
  const double e = std::numbers::e;
  check(FeatureMapKind::kIdentity, {-1, 2});
  check(FeatureMapKind::kElu1, {1 / e, 3});
  check(FeatureMapKind::kRelu, {0, 2});
  check(FeatureMapKind::kSilu, {-1 / (1 + e), 2 / (1 + 1 / (e * e))});
  // r = [0, 2, 1, 0]; rolled by 1: [0, 0, 2, 1], by 2: [1, 0, 0, 2], by 3: [2, 1, 0, 0], by 4: r.
  check(FeatureMapKind::kDpfp, {0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 4, 1, 0});
  // W = I, b = 0: softmax of [-2, 4, 2, -4].
  const double sum = std::exp(-2) + std::exp(4) + std::exp(2) + std::exp(-4);
  check(FeatureMapKind::kHedgehog,
        {std::exp(-2) / sum, std::exp(4) / sum, std::exp(2) / sum, std::exp(-4) / sum});
}

TEST_CASE("feature maps: trainable products and rectified maps use their own weights") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({3, 2}, 1);
  Scope product;
  const FeatureMap product_map(FeatureMapKind::kElementwiseProduct, 2, product.root);
  const at::Tensor both = x.matmul(product[0].t()) + product[1];
  CHECK(RelativeError(product_map(x, kFast), both.narrow(1, 0, 2) * both.narrow(1, 2, 2)) <
        kDoubleTolerance);
  Scope rectified;
  const FeatureMap rectified_map(FeatureMapKind::kT2r, 2, rectified.root);
  CHECK(RelativeError(rectified_map(x, kFast),
                      (x.matmul(rectified[0].t()) + rectified[1]).clamp_min(0)) < kDoubleTolerance);
}

TEST_CASE("decays: the range they start in") {
  Scope scope;
  const SoftplusDecay decay(scope.root, 7);
  const at::Tensor A = decay.A_log.detach().exp();
  CHECK(A.min().item<double>() >= 1e-4);
  CHECK(A.max().item<double>() <= 16);
  const at::Tensor dt = decay.dt_bias.detach().exp().log1p();  // softplus
  CHECK(dt.min().item<double>() >= 0.000999);
  CHECK(dt.max().item<double>() <= 0.1001);
}

TEST_CASE("channel mixers: formulas") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({3, 4}, 1);
  Scope none;
  CHECK(ChannelMixer({.kind = ChannelMixerKind::kIdentity}, 4, none.root)(x, kFast).is_same(x));
  CHECK(none.set.num_elements() == 0);
  for (const bool tanh_gelu : {false, true}) {
    Scope mlp;
    const ChannelMixer mixer(
        {.kind = ChannelMixerKind::kMlp, .inner_dim = 6, .bias = true, .tanh_gelu = tanh_gelu}, 4,
        mlp.root);
    const at::Tensor inner = at::gelu(x.matmul(mlp[0].t()) + mlp[1], tanh_gelu ? "tanh" : "none");
    CHECK(RelativeError(mixer(x, kFast), inner.matmul(mlp[2].t()) + mlp[3]) < kDoubleTolerance);
  }
  Scope gated;
  const ChannelMixer swiglu({.kind = ChannelMixerKind::kSwiglu, .inner_dim = 6}, 4, gated.root);
  const at::Tensor a = x.matmul(gated[0].narrow(0, 0, 6).t());
  const at::Tensor b = x.matmul(gated[0].narrow(0, 6, 6).t());
  CHECK(RelativeError(swiglu(x, kFast), (a * at::sigmoid(a) * b).matmul(gated[1].t())) <
        kDoubleTolerance);
}

TEST_CASE("dropout: keeps the expected value, and does nothing without a generator") {
  const at::Tensor x = at::ones({100, 1000}, at::TensorOptions(at::kDouble));
  CHECK(Dropout(x, 0.25, std::nullopt).is_same(x));
  CHECK(Dropout(x, 0, at::detail::createCPUGenerator(1)).is_same(x));
  const at::Tensor dropped = Dropout(x, 0.25, at::detail::createCPUGenerator(1));
  CHECK(((dropped == 0) | (dropped - 4.0 / 3).abs().lt(1e-12)).all().item<bool>());
  // Deviation of one element sqrt(1/3); five standard errors over 1e5 of them.
  CHECK(std::abs(dropped.mean().item<double>() - 1) < 5 * std::sqrt(1.0 / 3 / 1e5));
}

TEST_CASE("write strength: keys keep their direction and take the mean norm where overridden") {
  const at::Tensor k = RandomNormal({1, 4, 2, 3}, 1);
  const at::Tensor v = RandomNormal({1, 4, 2, 5}, 2);
  Taps taps;
  CHECK(TapWriteStrength(taps, k, v).is_same(k));
  CHECK(RelativeError(taps.records().at("write_gate"), k.norm(2, -1) * v.norm(2, -1)) < 1e-6);
  at::Tensor mask = at::zeros({1, 4}, at::TensorOptions(at::kBool));
  mask[0][2] = true;
  taps.override_write_gate = mask;
  const at::Tensor scaled = TapWriteStrength(taps, k, v);
  const at::Tensor mean_norm = k.norm(2, -1).mean(1);  // [1,2]
  CHECK(RelativeError(scaled.select(1, 2), L2Norm(k.select(1, 2), 0) * mean_norm.unsqueeze(-1)) <
        kDoubleTolerance);
  CHECK(RelativeError(scaled.narrow(1, 0, 2), k.narrow(1, 0, 2)) < kDoubleTolerance);
}

}  // namespace
}  // namespace mixerbench::models
