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
