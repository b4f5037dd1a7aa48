// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gated_delta_product/gated_delta_product.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::gated_delta_product {

void Register(MixerRegistry& registry);

namespace {

constexpr double kFloat64Tolerance = 1e-12;  // a few roundings at 1e-16

std::unique_ptr<Mixer> Make(Object config, std::int64_t d_model, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = d_model},
                            ParameterScope(parameters));
}

// Values of a loop over tokens in Python, written from the equations of gated_delta_product.md.
TEST_CASE("gated delta product: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"expand_v", 1}, {"conv_size", 2}}, {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "conv.weight", "A_log", "dt_bias",
                                            "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {0.011627498209509804, -0.009883659668683334, 0.006997711685288652, -0.003303140898190829,
       -0.02533090693491104, 0.01699821135206401, -0.006701282039733613, -0.004370016054146799,
       -0.02830109079134415, 0.02763855302466662, -0.02378223345584829, 0.017177750321528948},
      {-0.07033812622575973, 0.06279466819091484, -0.032002565603685425, -0.008950477132210317,
       -0.05242089934318088, 0.07233469209551334, -0.04131392614829864, -0.011652830534464231});
}

TEST_CASE("gated delta product: two steps a token are a delta net of twice the tokens") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"num_heads", 1},
                           {"expand_v", 1},
                           {"conv_size", 0},
                           {"use_output_gate", false},
                           {"norm_eps", 1e-6}},
                          2, parameters);
  const auto parameter = [&](const std::string& name) {
    for (const Parameter& candidate : parameters.parameters()) {
      if (candidate.name == name) return candidate.tensor;
    }
    FAIL("no parameter " << name);
    return at::Tensor();
  };
  const at::Tensor weight = parameter("in_proj.weight");
  // Rows of in_proj: q, k of step 0 and 1, v of step 0 and 1, beta of both, decay; K = V = 2.
  REQUIRE(weight.sizes() == at::IntArrayRef({13, 2}));
  const at::Tensor x = testing::RandomNormal({1, 5, 2}, 1);
  TapRecorder recorder;
  const MixerResult result =
      Forward(*mixer, {x}, {.want_final_state = true, .taps = TapScope(recorder)});
  const at::Tensor z = x[0].matmul(weight.t());
  const auto part = [&](std::int64_t first, bool unit) {
    const at::Tensor y = at::silu(z.narrow(1, first, 2));
    return unit ? y / (y.square().sum(1, /*keepdim=*/true) + 1e-6).sqrt() : y;
  };
  const at::Tensor beta = at::sigmoid(z.narrow(1, 10, 2)) * 2;
  const at::Tensor log_decay =
      -parameter("A_log").exp() * at::softplus(z.select(1, 12) + parameter("dt_bias"));
  at::Tensor state = at::zeros({2, 2}, at::kDouble);
  const at::Tensor erased = at::zeros({5, 1}, at::kDouble);
  for (std::int64_t t = 0; t < 5; ++t) {
    state = state * log_decay[t].exp();
    for (std::int64_t r = 0; r < 2; ++r) {
      const at::Tensor k = part(2 + 2 * r, true)[t];
      const at::Tensor v = part(6 + 2 * r, false)[t];
      const at::Tensor recalled = k.matmul(state);
      erased[t] += recalled.square().sum();
      state = state + at::outer(k, (v - recalled) * beta[t][r]);
    }
  }
  CHECK(testing::RelativeError(recorder.records.at("erase")[0], erased.sqrt()) < 1e-6);
  CHECK(testing::RelativeError(Find(&result.final_state, "state")[0][0], state) <
        kFloat64Tolerance);
  CHECK(testing::RelativeError(recorder.records.at("write_gate")[0], beta.mean(1, true)) < 1e-6);
}

TEST_CASE("gated delta product: write strength reaches two, where a step is a reflection") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = testing::RandomNormal({2, 9, 16}, 1) * 30;
  for (const bool allow : {false, true}) {
    ParameterSet own(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
    const auto mixer = Make({{"num_householder", 1}, {"allow_neg_eigval", allow}}, 16, own);
    TapRecorder recorder;
    Forward(*mixer, {x}, {.taps = TapScope(recorder)});
    CHECK((recorder.records.at("write_gate").max().item<double>() > 1) == allow);
  }
}

TEST_CASE("gated delta product: parameters and state are as many as the page says") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  const std::int64_t d = 128, heads = 2, k = 64, v = 128, steps = 3;
  const auto mixer = Make({{"num_householder", steps}}, d, parameters);
  const std::int64_t qkv = heads * (k + steps * (k + v));
  CHECK(parameters.num_elements() ==
        d * (qkv + steps * heads + heads + 2 * heads * v) + 4 * qkv + 2 * heads + v);
  const StateSize size = SizeOf(mixer->InitialState(1));
  CHECK(size.recurrent == heads * k * v);
  CHECK(size.conv == 4 * qkv);
}

TEST_CASE("gated delta product: impossible sizes are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"num_householder", 0}}, 16, parameters),
                    Catch::Matchers::StartsWith("/mixer/num_householder: "));
  CHECK_THROWS_WITH(Make({{"num_v_heads", 3}}, 16, parameters),
                    "/mixer/num_v_heads: 3 is not a multiple of num_heads 2");
}

}  // namespace
}  // namespace mixerbench::models::gated_delta_product
