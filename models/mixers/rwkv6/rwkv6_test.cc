// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/rwkv6/rwkv6.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::rwkv6 {

void Register(MixerRegistry& registry);

namespace {

using testing::FindParameter;
using testing::NewParameters;
using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 16;
constexpr double kTolerance = 1e-12;  // some roundings at 1e-16

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters, std::int64_t layer = 0,
                            std::int64_t num_layers = 1) {
  return testing::MakeMixer(Register, std::move(config),
                            {.d_model = kModelDim, .layer_index = layer, .num_layers = num_layers},
                            ParameterScope(parameters));
}

// Values of a loop over tokens in Python, written from the equations of rwkv6.md.
TEST_CASE("rwkv6: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(
      Register, {{"num_heads", 2}, {"mix_low_rank_dim", 2}, {"decay_low_rank_dim", 3}},
      {.d_model = 6});
  testing::FillParameters(
      made.parameters, {"base_mix", "token_mix", "mix_down", "mix_up", "decay_down", "decay_up",
                        "decay_bias", "r_proj.weight", "k_proj.weight", "v_proj.weight",
                        "g_proj.weight", "bonus", "o_norm.weight", "o_norm.bias", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 6}, 30)},
      {0.010927917842638739, 0.021161038698697343, -0.03167677426833013, 0.009898724041733488,
       0.021970861110479634, -0.031441628868906064, 0.05908919670957024, -0.04436841042082074,
       -0.015585010040584546, 0.05964985006702095, -0.04290295893283, -0.017582570298309834,
       -0.07588269743438135, 0.13151512862338266, -0.05307073252087301, -0.07947812679371107,
       0.1310007559618831, -0.04897094963454036},
      {{"state",
        {-0.10335270133377929, 0.6685309314227238, -0.5521563457281555, 0.022245935045633075,
         -0.3266984991103466, 0.2980890139635915, 0.07099113145651771, -0.4085714108263504,
         0.3296219794395921, -0.057267259567454445, 0.7680245272959847, -0.69579741155641,
         -0.01506413618339121, -0.32625963338958075, 0.3349687678551741, 0.08505402303911311,
         -0.43877765511854067, 0.3451769641296111}},
       {"shift",
        {-0.4141621922838227, -0.4972298090022577, -0.34644247711684784, -0.032717834930353476,
         0.2963945162541563, 0.4861078951522695}}});
}

TEST_CASE("rwkv6: parameters and state have the sizes of its page") {
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);  // H 4, D 4
  CHECK(parameters.num_elements() == 5 * 16 * 16 + 448 * 16 + (1 + 5 + 1 + 1 + 2) * 16);
  const StateSize size = SizeOf(mixer->InitialState(1));
  CHECK(size.recurrent == 16 * 4);
  CHECK(size.conv == 16);
}

TEST_CASE("rwkv6: shares of the token before start as one minus those of RWKV-5") {
  const auto value = [](std::int64_t layer, const char* name, std::int64_t index) {
    ParameterSet parameters = NewParameters(2);
    Make({}, parameters, layer, 2);
    return FindParameter(parameters, name).detach().flatten()[index].item<double>();
  };
  // By hand at channel 9 of 16; mu of w, k, v, r, g.
  CHECK(value(1, "base_mix", 9) == Approx(0.25));
  CHECK(value(1, "token_mix", 9) == Approx(0.25));
  CHECK(value(1, "token_mix", 16 + 9) == Approx(0.25));
  CHECK(value(1, "token_mix", 32 + 9) == Approx(-0.05));
  CHECK(value(0, "token_mix", 48 + 9) == Approx(0.25));
  CHECK(value(0, "token_mix", 64 + 9) == Approx(0.25));
  CHECK(value(1, "decay_bias", 9) == Approx(-4.2));
  CHECK(std::abs(value(0, "mix_up", 77)) <= 1e-4);
}

TEST_CASE("rwkv6: decays start near those of RWKV-5 and depend on the token") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);
  TapRecorder recorder;
  const at::Tensor x = RandomNormal({2, 5, kModelDim}, 1);
  Forward(*mixer, {x}, {.taps = TapScope(recorder)});
  const at::Tensor start = -FindParameter(parameters, "decay_bias").exp().view({4, 4});
  CHECK(RelativeError(recorder.records.at("log_decay"), start.expand({2, 5, 4, 4})) < 1e-3);
  FindParameter(parameters, "decay_up").mul_(1e8);
  Forward(*mixer, {x}, {.taps = TapScope(recorder)});
  CHECK(RelativeError(recorder.records.at("log_decay"), start.expand({2, 5, 4, 4})) > 1e-2);
}

TEST_CASE("rwkv6: decays of any logit have finite gradients") {
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);
  {
    const at::NoGradGuard no_grad;
    FindParameter(parameters, "decay_bias").fill_(1000);
  }
  Forward(*mixer, {RandomNormal({2, 5, kModelDim}, 1)}).y.sum().backward();
  for (const Parameter& parameter : parameters.parameters()) {
    CAPTURE(parameter.name);
    CHECK(at::isfinite(parameter.tensor.grad()).all().item<bool>());
  }
}

TEST_CASE("rwkv6: impossible options are errors that name them") {
  ParameterSet parameters = NewParameters();
  CHECK_THROWS_WITH(Make({{"num_heads", 3}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/num_heads: "));
  CHECK_THROWS_WITH(Make({{"mix_low_rank_dim", 0}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/mix_low_rank_dim: "));
}

}  // namespace
}  // namespace mixerbench::models::rwkv6
