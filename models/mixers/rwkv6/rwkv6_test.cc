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
