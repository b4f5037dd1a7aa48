// Each block against its formula, written out.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
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
#include "models/blocks/long_convolution.h"
#include "models/blocks/matrix_state_mixer.h"
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

TEST_CASE("matrix state mixer: heads without keys are refused, not met later") {
  Scope scope;
  const MatrixLayout layout{.num_heads = 2, .qk_heads = 2, .head_v_dim = 4};
  MixerContext context;
  context.d_model = 8;
  CHECK_THROWS_WITH(MatrixStateMixer(layout, {}, {}, context, scope.root),
                    Catch::Contains("expand_k"));
}

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
  const auto result = conv(x, {}, kFast);
  CHECK(RelativeError(result.y, expected) < kDoubleTolerance);
  CHECK(result.history.equal(x.narrow(1, 3, 3)));
  CHECK(conv(x, conv.InitialHistory(2), kFast).y.equal(result.y));
}

TEST_CASE("short convolution: filters that runs of channels have in common act on each of them") {
  Scope scope;
  const ShortConvolution conv(scope.root, {{2, 1}, {1, 3}, {2, 2}}, /*width=*/4);
  CHECK(conv.channels() == 9);
  CHECK(conv.InitialHistory(2).sizes() == at::IntArrayRef({2, 3, 9}));
  const at::Tensor weight = scope[0];
  REQUIRE(weight.sizes() == at::IntArrayRef({5, 4}));
  const at::Tensor x = RandomNormal({2, 6, 9}, 1);
  const at::Tensor y = conv(x, {}, kFast).y;
  y.square().sum().backward();

  const at::Tensor gradient = weight.grad().clone();
  weight.mutable_grad().reset();
  const std::int64_t filter_of[] = {0, 1, 2, 2, 2, 3, 4, 3, 4};
  at::Tensor sum = at::zeros({}, x.options());
  for (std::int64_t c = 0; c < 9; ++c) {
    const at::Tensor inputs = at::cat({at::zeros({2, 3}, x.options()), x.select(2, c)}, 1);
    const at::Tensor expected =
        inputs.unfold(1, 4, 1).matmul(weight[filter_of[static_cast<std::size_t>(c)]]);
    CAPTURE(c);
    CHECK(RelativeError(y.select(2, c), expected) < kDoubleTolerance);
    sum = sum + expected.square().sum();
  }
  sum.backward();
  CHECK(RelativeError(gradient, weight.grad()) < kDoubleTolerance);
}

TEST_CASE("short convolution: the history of an input shorter than the kernel keeps older inputs") {
  const at::NoGradGuard no_grad;
  Scope scope;
  const ShortConvolution conv(scope.root, 3, 4, false);
  const at::Tensor x = RandomNormal({2, 2, 3}, 1);
  const at::Tensor history = RandomNormal({2, 3, 3}, 2);
  const at::Tensor next = conv(x, history, kFast).history;
  CHECK(next.narrow(1, 0, 1).equal(history.narrow(1, 2, 1)));
  CHECK(next.narrow(1, 1, 2).equal(x));
}

TEST_CASE("long convolution: by definition and by FFT it is the sum over the past") {
  const at::Tensor u = RandomNormal({2, 7, 3}, 1);
  const at::Tensor filter = RandomNormal({7, 3}, 2);
  at::Tensor expected = at::zeros({2, 7, 3}, u.options());
  for (std::int64_t t = 0; t < 7; ++t) {
    for (std::int64_t s = 0; s <= t; ++s) expected.select(1, t) += filter[t - s] * u.select(1, s);
  }
  const at::Tensor last = expected.narrow(1, 4, 3);
  for (const auto path : {kernels::ExecutionPath::kReference, kFast}) {
    CHECK(RelativeError(LongConvolution(u, filter, 3, path), last) < kDoubleTolerance);
  }
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
  const OutputNorm silu(scope.root.Child("c"), 5, 1e-5, OutputGate::kSilu);
  const OutputNorm sigmoid(scope.root.Child("d"), 5, 1e-5, OutputGate::kSigmoid);
  const OutputNorm plain(scope.root.Child("e"), 5, 1e-5, OutputGate::kNone);
  const at::Tensor expected = (rms * z * at::sigmoid(z)).flatten(2);
  CHECK(RelativeError(silu(x, z.flatten(2), kFast), expected) < kDoubleTolerance);
  CHECK(RelativeError(silu(x.flatten(0, 1), z.flatten(0, 1).flatten(1), kFast),
                      expected.flatten(0, 1)) < kDoubleTolerance);
  CHECK(RelativeError(sigmoid(x, z.flatten(2), kFast), (rms * at::sigmoid(z)).flatten(2)) <
        kDoubleTolerance);
  CHECK(RelativeError(plain(x, {}, kFast), rms.flatten(2)) < kDoubleTolerance);
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

const MixerContext kWidthFour{.d_model = 4, .layer_index = 1, .num_layers = 2};

at::Tensor OutputOf(const Mixer& mixer, const at::Tensor& x) { return Forward(mixer, {x}).y; }

TEST_CASE("channel mixers: formulas of those that see one token") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({3, 2, 4}, 1);
  Scope none;
  CHECK(MakeChannelMixer({.kind = ChannelMixerKind::kIdentity}, kWidthFour, none.root) == nullptr);
  CHECK(none.set.num_elements() == 0);
  for (const bool tanh_gelu : {false, true}) {
    Scope mlp;
    const auto mixer = MakeChannelMixer(
        {.kind = ChannelMixerKind::kMlp, .inner_dim = 6, .bias = true, .tanh_gelu = tanh_gelu},
        kWidthFour, mlp.root);
    CHECK(mixer->InitialState(2).tensors.empty());
    const at::Tensor inner = at::gelu(x.matmul(mlp[0].t()) + mlp[1], tanh_gelu ? "tanh" : "none");
    CHECK(RelativeError(OutputOf(*mixer, x), inner.matmul(mlp[2].t()) + mlp[3]) < kDoubleTolerance);
  }
  Scope gated;
  const auto swiglu =
      MakeChannelMixer({.kind = ChannelMixerKind::kSwiglu, .inner_dim = 6}, kWidthFour, gated.root);
  const at::Tensor a = x.matmul(gated[0].narrow(0, 0, 6).t());
  const at::Tensor b = x.matmul(gated[0].narrow(0, 6, 6).t());
  CHECK(RelativeError(OutputOf(*swiglu, x), (a * at::sigmoid(a) * b).matmul(gated[1].t())) <
        kDoubleTolerance);
}

TEST_CASE("channel mixers: RWKV's mix each token with the one before") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({2, 5, 4}, 1);
  const at::Tensor before = at::cat({at::zeros({2, 1, 4}, x.options()), x.narrow(1, 0, 4)}, 1);
  // Layer 1 of 2: r1 = 1/2, so channel i starts with (i/4)^(1/2) of the token itself, in RWKV-7
  // with (i/4)^(1/16).
  const at::Tensor channel = at::arange(4, x.options()) / 4;
  for (const bool is_seven : {false, true}) {
    CAPTURE(is_seven);
    Scope scope;
    const auto mixer = MakeChannelMixer(
        {.kind = is_seven ? ChannelMixerKind::kRwkv7 : ChannelMixerKind::kRwkv, .inner_dim = 6},
        kWidthFour, scope.root);
    const at::Tensor of_token = channel.pow(is_seven ? 1.0 / 16 : 0.5);
    CHECK(RelativeError(scope[0][0], 1 - of_token) < kDoubleTolerance);
    const at::Tensor mixed = of_token * x + (1 - of_token) * before;
    at::Tensor y = mixed.matmul(scope[1].t()).clamp_min(0).square().matmul(scope[2].t());
    if (!is_seven) y = at::sigmoid(mixed.matmul(scope[3].t())) * y;
    CHECK(RelativeError(OutputOf(*mixer, x), y) < kDoubleTolerance);

    // In pieces, the last token is carried.
    State state = mixer->InitialState(2);
    CHECK(SizeOf(mixer->InitialState(1)).conv == 4);
    std::vector<at::Tensor> pieces;
    for (const auto& [start, length] : {std::pair{0, 1}, {1, 3}, {4, 1}}) {
      MixerResult result = Forward(*mixer, {x.narrow(1, start, length)},
                                   {.initial_state = &state, .want_final_state = true});
      pieces.push_back(result.y);
      state = std::move(result.final_state);
    }
    CHECK(RelativeError(at::cat(pieces, 1), y) < kDoubleTolerance);
    CHECK(Find(&state, "shift").equal(x.select(1, 4)));
  }
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
  TapRecorder recorder;
  const TapScope taps(recorder);
  CHECK(TapWriteStrength(taps, k, v).is_same(k));
  CHECK(RelativeError(recorder.records.at("write_gate"), k.norm(2, -1) * v.norm(2, -1)) < 1e-6);
  at::Tensor mask = at::zeros({1, 4}, at::TensorOptions(at::kBool));
  mask[0][2] = true;
  recorder.override_write_gate = mask;
  const at::Tensor scaled = TapWriteStrength(taps, k, v);
  const at::Tensor mean_norm = k.norm(2, -1).mean(1);  // [1,2]
  CHECK(RelativeError(scaled.select(1, 2), L2Norm(k.select(1, 2), 0) * mean_norm.unsqueeze(-1)) <
        kDoubleTolerance);
  CHECK(RelativeError(scaled.narrow(1, 0, 2), k.narrow(1, 0, 2)) < kDoubleTolerance);
}

}  // namespace
}  // namespace mixerbench::models
