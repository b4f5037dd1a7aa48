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
