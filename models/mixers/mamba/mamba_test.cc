// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mamba/mamba.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::mamba {

void Register(MixerRegistry& registry);

namespace {

using testing::MadeMixer;
using testing::RandomNormal;

MadeMixer Make(Object config, std::int64_t d_model, InitPolicy policy = InitPolicy::kDefault,
               at::ScalarType dtype = at::kFloat) {
  return {Register, std::move(config), {.d_model = d_model}, policy, dtype};
}

// Values of a loop over tokens in Python, written from the equations of mamba.md.
TEST_CASE("mamba: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"d_state", 2}, {"dt_rank", 2}, {"conv_size", 2}},
                                {.d_model = 2});
  testing::FillParameters(made.parameters,
                          {"in_proj.weight", "conv.weight", "conv.bias", "x_proj.weight",
                           "dt_proj.weight", "dt_proj.bias", "A_log", "D", "out_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 2}, 30)},
      {-0.005856302285767105, 0.0063790850273734686, 0.003016153253426881, -0.0025193291258554435,
       0.003930615472224946, -0.00358790231451667},
      {-0.021049089169225054, 0.022919709827672004, -0.03973939388110072, 0.04941995957536702,
       -0.06868276534552344, 0.07095125969859652, -0.0319733425084184, 0.03058115481982492});
}

TEST_CASE("mamba: parameters of the published blocks") {
  CHECK(Make({}, 64).parameters.num_elements() == 32640);
  CHECK(Make({}, 128).parameters.num_elements() == 116480);
  CHECK(Make({{"d_state", 4}}, 128).parameters.num_elements() == 107264);
}

TEST_CASE("mamba: the state is D (N + K) numbers") {
  const StateSize size = SizeOf(Make({}, 64).mixer->InitialState(1));
  CHECK(size.recurrent == 128 * 16);
  CHECK(size.conv == 128 * 4);
}

TEST_CASE("mamba: steps, decays and skip start as published under every policy") {
  for (const auto policy : {InitPolicy::kDefault, InitPolicy::kZoology, InitPolicy::kMad}) {
    testing::CheckSelectiveStart(Make({}, 64, policy));
  }
}

TEST_CASE("mamba: a closed gate lets nothing through") {
  const at::NoGradGuard no_grad;
  const MadeMixer model = Make({}, 8);
  model["in_proj.weight"].narrow(0, 16, 16).zero_();  // silu(0) = 0
  const at::Tensor y = Forward(*model.mixer, {RandomNormal({1, 5, 8}, 1, at::kFloat)}).y;
  CHECK(y.abs().max().item<double>() == 0);
}

TEST_CASE("mamba: whoever holds it may project") {
  const MadeMixer made(Register, {}, {.d_model = 8, .output_projection = false});
  const auto& mixer = made.mixer;
  CHECK(mixer->traits().output_dim == 16);
  CHECK(Forward(*mixer, {RandomNormal({1, 5, 8}, 1)}).y.size(2) == 16);
}

TEST_CASE("mamba: impossible options are named") {
  CHECK_THROWS_WITH(Make({{"expand", 0}}, 16), Catch::StartsWith("/mixer/expand: "));
  CHECK_THROWS_WITH(Make({{"conv_size", 0}}, 16), Catch::StartsWith("/mixer/conv_size: "));
}

}  // namespace
}  // namespace mixerbench::models::mamba
