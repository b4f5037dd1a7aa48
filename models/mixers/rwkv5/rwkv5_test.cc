// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/rwkv5/rwkv5.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::rwkv5 {

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

// Values of a loop over tokens in Python, written from the equations of rwkv5.md.
TEST_CASE("rwkv5: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"num_heads", 2}}, {.d_model = 6});
  testing::FillParameters(made.parameters, {"token_mix", "r_proj.weight", "k_proj.weight",
                                            "v_proj.weight", "g_proj.weight", "decay", "bonus",
                                            "o_norm.weight", "o_norm.bias", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 6}, 30)},
      {-0.003074245417551805, 0.0017063559585303474, 0.0014011264700944186, -0.003080190786591728,
       0.0016190672597466154, 0.0014926602974533118, -0.10774893814767691, 0.13322830410307493,
       -0.022884297443126894, -0.1107897551825303, 0.1315160501869716, -0.018164578385768765,
       0.06809159982065394, -0.045880485078232405, -0.0231047912247258, 0.06853523292371155,
       -0.04409548794318424, -0.02529865265082286},
      {{"state",
        {0.06426589666473279, 0.39741596209965635, -0.4539408486504968, -0.1210631749918652,
         -0.0758554893199826, 0.1954411239862959, 0.07555720689668186, -0.34703410976025245,
         0.2647172484719181, 0.06169065045093865, 0.3905905744611732, -0.44467316213748015,
         -0.2607281765508463, 0.09020277001832824, 0.17228240831806277, 0.21438677992653266,
         -0.5002981215223254, 0.27616635601895656}},
       {"shift",
        {-0.4141621922838227, -0.4972298090022577, -0.34644247711684784, -0.032717834930353476,
         0.2963945162541563, 0.4861078951522695}}});
}

TEST_CASE("rwkv5: parameters and state have the sizes of its page") {
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);  // H 4, D 4
  CHECK(parameters.num_elements() == 5 * 16 * 16 + (4 + 1 + 1 + 2) * 16);
  const StateSize size = SizeOf(mixer->InitialState(1));
  CHECK(size.recurrent == 16 * 4);
  CHECK(size.conv == 16);
}

// Start values of a parameter of layer `layer` of two, flat.
at::Tensor StartOfTwo(Object config, std::int64_t layer, const char* name) {
  ParameterSet parameters = NewParameters(2);
  Make(std::move(config), parameters, layer, 2);
  return FindParameter(parameters, name).detach().flatten();
}

TEST_CASE("rwkv5: start values of the first and the last of two layers") {
  const auto value = [](std::int64_t layer, const char* name, std::int64_t index) {
    return StartOfTwo({}, layer, name)[index].item<double>();
  };
  // By hand at channel 9 of 16; mu of r, k, v, g.
  CHECK(value(0, "token_mix", 9) == Approx(0.75));
  CHECK(value(0, "token_mix", 16 + 9) == Approx(0.5625));
  CHECK(value(0, "token_mix", 32 + 9) == Approx(0.5625));
  CHECK(value(1, "token_mix", 9) == Approx(std::pow(0.5625, 0.25)));
  CHECK(value(1, "token_mix", 16 + 9) == Approx(0.75));
  CHECK(value(1, "token_mix", 32 + 9) == Approx(1.05));
  CHECK(value(1, "token_mix", 48 + 9) == Approx(std::pow(0.5625, 0.25)));
  CHECK(value(0, "decay", 0) == Approx(-6));
  CHECK(value(0, "decay", 15) == Approx(-1));
  CHECK(value(0, "decay", 9) == Approx(-6 + 5 * std::pow(0.6, 0.7)));
  CHECK(value(1, "decay", 9) == Approx(-4.2));
  CHECK(value(0, "bonus", 9) == Approx(0).margin(1e-12));
  CHECK(value(0, "bonus", 10) == Approx(0.1));
  CHECK(value(1, "bonus", 8) == Approx(7.0 / 15 - 0.1));
}

TEST_CASE("rwkv5: MAD's layers start as a single one, whatever their depth") {
  for (const char* name : {"token_mix", "decay", "bonus"}) {
    CAPTURE(name);
    ParameterSet single = NewParameters();
    Make({}, single);
    const at::Tensor expected = FindParameter(single, name).flatten();
    for (const std::int64_t layer : {0, 1}) {
      CHECK(StartOfTwo({{"by_depth", false}}, layer, name).equal(expected));
    }
    CHECK_FALSE(StartOfTwo({}, 1, name).equal(expected));
  }
}

TEST_CASE("rwkv5: without a bonus the first token reads nothing, the second the first") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);
  FindParameter(parameters, "bonus").zero_();
  const at::Tensor o = mixer->Mix({RandomNormal({2, 5, kModelDim}, 1)}, {}).tokens[0].value;
  CHECK(o.select(1, 0).eq(0).all().item<bool>());
  CHECK(o.select(1, 1).ne(0).all().item<bool>());
}

TEST_CASE("rwkv5: decays are constant over time") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);
  TapRecorder recorder;
  Forward(*mixer, {RandomNormal({2, 5, kModelDim}, 1)}, {.taps = TapScope(recorder)});
  const at::Tensor expected = -FindParameter(parameters, "decay").exp();
  CHECK(RelativeError(recorder.records.at("log_decay"), expected.expand({2, 5, 4, 4})) < 1e-6);
  CHECK(recorder.records.at("bonus").sizes() == at::IntArrayRef({16}));
}

TEST_CASE("rwkv5: heads that do not divide the width are an error that names the option") {
  ParameterSet parameters = NewParameters();
  CHECK_THROWS_WITH(Make({{"num_heads", 3}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/num_heads: "));
}

}  // namespace
}  // namespace mixerbench::models::rwkv5
