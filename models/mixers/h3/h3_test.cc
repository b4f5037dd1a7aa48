// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/h3/h3.h"

#include <numbers>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::h3 {

void Register(MixerRegistry& registry);

namespace {

struct Model : testing::MadeMixer {
  Model(Object config, std::int64_t d_model)
      : MadeMixer(Register, std::move(config), {.d_model = d_model, .max_seq_len = 64},
                  InitPolicy::kDefault) {}
};

// Values of a loop over tokens in Python, written from the equations of h3.md.
TEST_CASE("h3: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"d_state", 4}, {"head_dim", 2}},
                                {.d_model = 4, .max_seq_len = 4});
  testing::FillParameters(
      made.parameters, {"in_proj.weight", "in_proj.bias", "shift.B", "shift.C", "shift.D", "log_dt",
                        "A_real", "A_imag", "B", "C", "D", "out_proj.weight", "out_proj.bias"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 4, 4}, 30)},
      {-0.2777274099202417, -0.48250062198459037, -0.4541944148896645, -0.21943225745457878,
       -0.29178050443839604, -0.46491728290152384, -0.47327615018674535, -0.20105712194637473,
       -0.27877302209476046, -0.48612162332140735, -0.44632522600486557, -0.23064030725815982,
       -0.2956130759780949, -0.45851601496010425, -0.4815064139730698, -0.1919489130696521},
      {-0.01392999446053646,  -0.008505672287388279, 0.0006024725212110593,  0.008970340675087334,
       0.0015797050394120132, 0.002621645623975977,  0.002472418080256846,   -0.0001979702729836795,
       0.058315874704580384,  0.03611295482367189,   -0.003589830908148873,  -0.03635010374521547,
       -0.005338158088076188, -0.003984775881673069, -0.0012619774049127486, 0.0032388831505604813,
       0.07311968999643506,   0.026241629710398545,  0.021161779746009853,   -0.028589263190117238,
       -0.054132473108594384, -0.02235251330030337,  -0.016537522169917513,  0.019604192934820665,
       -0.10837228121631237,  -0.04295306560753668,  -0.03236467003737836,   0.04005696933192189,
       0.08001429134242659,   0.034812395822468825,  0.024886689257776144,   -0.02793671949102769});
}

TEST_CASE("h3: counts") {
  CHECK(Model({{"d_state", 16}, {"head_dim", 2}}, 64).parameters.num_elements() == 20352);
  CHECK(Model({{"d_state", 64}, {"head_dim", 2}}, 64).parameters.num_elements() == 31104);
  CHECK(Model({{"d_state", 32}, {"head_dim", 2}}, 128).parameters.num_elements() == 80640);
  const Model model({{"d_state", 8}, {"head_dim", 2}}, 6);
  CHECK(SizeOf(model.mixer->InitialState(1)).recurrent == 6 * 2 * 8);
  CHECK(SizeOf(model.mixer->InitialState(1)).conv == 6 * 8);
}

// With a diagonal system that answers nothing, s is the skip: y = W_o (q sum (k' v) D) + b_o.
TEST_CASE("h3: the shift is the register of its equations") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kReach = 4;
  const Model model({{"d_state", kReach}}, 3);
  model["C"].zero_();
  model["shift.B"].copy_(testing::RandomNormal({3, kReach}, 9));
  const at::Tensor x = testing::RandomNormal({1, 9, 3}, 1);
  const auto qkv = (x[0].matmul(model["in_proj.weight"].t()) + model["in_proj.bias"]).chunk(3, -1);
  at::Tensor cell = model["shift.B"] * 0;  // s_t[n] = s_{t-1}[n-1] + B[n] k_t
  std::vector<at::Tensor> outputs;
  for (std::int64_t t = 0; t < 9; ++t) {
    const at::Tensor k = qkv[1][t];
    at::Tensor next = model["shift.B"] * k.unsqueeze(-1);
    next.narrow(1, 1, kReach - 1).add_(cell.narrow(1, 0, kReach - 1));
    cell = next;
    const at::Tensor shifted = (model["shift.C"] * cell).sum(-1) + model["shift.D"] * k;
    const at::Tensor y = qkv[0][t] * shifted * qkv[2][t] * model["D"];
    outputs.push_back(y.matmul(model["out_proj.weight"].t()) + model["out_proj.bias"]);
  }
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(testing::RelativeError(Forward(*model.mixer, {x}, {.path = path}).y[0],
                                 at::stack(outputs)) < 1e-12);
  }
}

TEST_CASE("h3: every head starts with the modes of S4D-Lin") {
  const Model model({{"d_state", 8}, {"head_dim", 2}}, 6);
  const at::Tensor n = at::arange(4, at::TensorOptions(at::kDouble)).expand({3, 4});
  CHECK(testing::RelativeError(model["A_imag"], n * std::numbers::pi) < 1e-15);
  CHECK(testing::RelativeError(-model["A_real"].exp(), n * 0 - 0.5) < 1e-15);
}

TEST_CASE("h3: impossible options are named") {
  CHECK_THROWS_WITH(Model({{"d_state", 5}}, 8), Catch::Matchers::StartsWith("/mixer/d_state: "));
  CHECK_THROWS_WITH(Model({{"head_dim", 3}}, 8), Catch::Matchers::StartsWith("/mixer/head_dim: "));
}

}  // namespace
}  // namespace mixerbench::models::h3
