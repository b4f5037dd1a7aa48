// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mesa_net/mesa_net.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::mesa_net {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

struct Model : testing::MadeMixer {
  explicit Model(Object config, std::int64_t d_model = 16)
      : MadeMixer(Register, std::move(config), {.d_model = d_model}) {}
};

// Values of a loop over tokens in Python, written from the equations of mesa_net.md.
TEST_CASE("mesa_net: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"conv_size", 2}}, {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "gate_bias", "ridge", "conv.weight",
                                            "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {-0.15153912842238748, 0.15416677629629458, -0.13897963320808476, 0.10773265431689139,
       0.19147629504889746, -0.14590987674430203, 0.08348279613648595, -0.01140883441826615,
       -0.24724193937238084, 0.2539794918476173, -0.23136836320861587, 0.18202138963057896},
      {{"gram",
        {0.1533282742912806, -0.1429744324008221, -0.14297443240082214, 0.8925102959012653,
         0.5039156156893526, 0.29885746986686945, 0.29885746986686945, 0.2849000745624464}},
       {"state",
        {0.019812150610318643, -0.032434257865018246, -0.41284291447043997, 0.36440591139623923,
         0.17808571506070509, -0.08895128814643388, 0.14199081941985534, -0.08812567128612253}}});
}

TEST_CASE("mesa_net: parameters and states have the sizes of the page") {
  const Model model({}, 64);
  // 4 d^2 + 2 d H with 2 H biases, lambda, the convolution of q and k, a norm of V.
  CHECK(model.parameters.num_elements() == 4 * 64 * 64 + 2 * 64 * 2 + 2 * 2 + 64 + 2 * 64 * 4 + 32);
  const StateSize size = SizeOf(model.mixer->InitialState(1));
  CHECK(size.recurrent == 2 * (32 * 32 + 32 * 32));
  CHECK(size.conv == 2 * 4 * 64);
}

TEST_CASE("mesa_net: the ridge starts at 1 and the systems are solved") {
  const at::NoGradGuard no_grad;
  for (const double min_ridge : {0.25, 0.75}) {
    const Model model({{"min_ridge", min_ridge}});
    for (const auto& parameter : model.parameters.parameters()) {
      if (parameter.name != "ridge") continue;
      CHECK(RelativeError((parameter.tensor.exp() + 1).log() + min_ridge,
                          parameter.tensor * 0 + 1) < 1e-12);
    }
    TapRecorder recorder;
    Forward(*model.mixer, {RandomNormal({2, 9, 16}, 1)}, {.taps = TapScope(recorder)});
    CHECK(recorder.records.at("residual").max().item<double>() < 1e-6);
    CHECK(recorder.records.at("write_gate").sizes() == at::IntArrayRef({2, 9, 2}));
    CHECK(recorder.records.at("log_decay").max().item<double>() < 0);
  }
}

TEST_CASE("mesa_net: without a convolution silu stays") {
  testing::CheckOnlyConvolutionGoes(Register);
}

TEST_CASE("mesa_net: impossible options are errors that name the option") {
  CHECK_THROWS_WITH(Model({{"num_iterations", 0}}),
                    Catch::Matchers::StartsWith("/mixer/num_iterations: "));
  for (const double min_ridge : {0.0, 1.0}) {
    CHECK_THROWS_WITH(Model({{"min_ridge", min_ridge}}),
                      Catch::Matchers::StartsWith("/mixer/min_ridge: "));
  }
}

}  // namespace
}  // namespace mixerbench::models::mesa_net
