// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/s6/s6.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::s6 {

void Register(MixerRegistry& registry);

namespace {

using testing::MadeMixer;
using testing::RandomNormal;
using testing::RelativeError;

MadeMixer Make(Object config, std::int64_t d_model, InitPolicy policy = InitPolicy::kDefault,
               at::ScalarType dtype = at::kFloat) {
  return {Register, std::move(config), {.d_model = d_model}, policy, dtype};
}

// Values of a loop over tokens in Python, written from the equations of s6.md.
TEST_CASE("s6: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"d_state", 2}, {"dt_rank", 2}}, {.d_model = 3});
  testing::FillParameters(made.parameters,
                          {"x_proj.weight", "dt_proj.weight", "dt_proj.bias", "A_log", "D"});
  testing::CheckOutputsAndState(*made.mixer, {testing::Sines({1, 3, 3}, 30)},
                                {-0.11209382057744602, 0.024302714738319506, -0.04990372759407785,
                                 0.10771423591298053, -0.045923583353961336, -0.12655744507848385,
                                 0.027722179871350124, 0.05897813031810289, 0.21089680477687936},
                                {-0.09490435421397073, 0.09514218852240044, -0.07999256591484005,
                                 0.12951271944828618, -0.04575040303681368, 0.12096565798006288});
}

TEST_CASE("s6: parameters and state of SelectLTI's baseline") {
  const MadeMixer model = Make({}, 64);
  CHECK(model.parameters.num_elements() == 3712);
  CHECK(SizeOf(model.mixer->InitialState(1)).recurrent == 64 * 16);
  CHECK(SizeOf(model.mixer->InitialState(1)).conv == 0);
}

TEST_CASE("s6: steps, decays and skip start as published under every policy, without decay") {
  for (const auto policy : {InitPolicy::kDefault, InitPolicy::kZoology, InitPolicy::kMad}) {
    const MadeMixer model = Make({}, 64, policy);
    testing::CheckSelectiveStart(model);
    for (const Parameter& parameter : model.parameters.parameters()) {
      CAPTURE(parameter.name);
      const bool is_matrix = parameter.name.ends_with("weight");
      CHECK(parameter.weight_decay == is_matrix);
    }
  }
}

TEST_CASE("s6: steps that are drawn below the floor start there") {
  const MadeMixer model = Make({{"dt_min", 1e-6}, {"dt_max", 2e-6}, {"dt_init_floor", 1e-4}}, 64);
  const at::Tensor steps = at::softplus(model["dt_proj.bias"].to(at::kDouble));
  CHECK((steps - 1e-4).abs().max().item<double>() < 1e-9);
}

TEST_CASE("s6: with and without fusion it is the same") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({2, 37, 16}, 3);
  const MadeMixer fused = Make({}, 16, InitPolicy::kDefault, at::kDouble);
  const MadeMixer unfused = Make({{"fused", false}}, 16, InitPolicy::kDefault, at::kDouble);
  CHECK(RelativeError(Forward(*unfused.mixer, {x}).y, Forward(*fused.mixer, {x}).y) < 1e-12);
}

// The state keeps decaying as it would, and the skip stays: only what is written changes.
TEST_CASE("s6: an overridden write gate replaces what is written, not the decay") {
  const at::NoGradGuard no_grad;
  const MadeMixer model = Make({{"d_state", 2}}, 4, InitPolicy::kDefault, at::kDouble);
  const at::Tensor x = RandomNormal({1, 6, 4}, 3);
  TapRecorder plain;
  const auto before =
      Forward(*model.mixer, {x}, {.want_final_state = true, .taps = TapScope(plain)});
  TapRecorder overridden;
  overridden.override_write_gate = at::zeros({1, 6}, at::kBool);
  overridden.override_write_gate->select(1, 2).fill_(true);
  const auto after =
      Forward(*model.mixer, {x}, {.want_final_state = true, .taps = TapScope(overridden)});
  const at::Tensor steps = plain.records.at("write_gate");
  CHECK(steps.sizes() == at::IntArrayRef({1, 6, 4}));
  CHECK(plain.records.at("log_decay").sizes() == at::IntArrayRef({1, 6, 4, 2}));
  CHECK(plain.records.at("log_decay").equal(overridden.records.at("log_decay")));
  CHECK(RelativeError(overridden.records.at("write_gate").select(1, 2), steps.mean(1)) < 1e-6);
  CHECK(RelativeError(after.y.narrow(1, 0, 2), before.y.narrow(1, 0, 2)) < 1e-14);
  CHECK(RelativeError(after.y.select(1, 2), before.y.select(1, 2)) > 1e-6);
}

TEST_CASE("s6: impossible options are named") {
  CHECK_THROWS_WITH(Make({{"d_state", 0}}, 16), Catch::StartsWith("/mixer/d_state: "));
  CHECK_THROWS_WITH(Make({{"dt_rank", 17}}, 16), Catch::StartsWith("/mixer/dt_rank: "));
  CHECK_THROWS_WITH(Make({{"dt_min", 1}}, 16), Catch::StartsWith("/mixer/dt_min: "));
  CHECK_THROWS_WITH(Make({{"dt_init_floor", 0}}, 16), Catch::StartsWith("/mixer/dt_init_floor: "));
}

}  // namespace
}  // namespace mixerbench::models::s6
