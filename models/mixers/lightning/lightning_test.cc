// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/lightning/lightning.h"

#include <cmath>
#include <memory>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::lightning {

void Register(MixerRegistry& registry);

namespace {

constexpr std::int64_t kModelDim = 16;

std::unique_ptr<Mixer> Make(Object config, std::int64_t layer_index, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config),
                            {.d_model = kModelDim, .layer_index = layer_index, .num_layers = 4},
                            ParameterScope(parameters));
}

TEST_CASE("lightning: decays grow with the head and fall with the layer") {
  const at::NoGradGuard no_grad;
  for (const std::int64_t layer : {0, 3}) {
    ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
    const auto mixer = Make({{"num_heads", 4}}, layer, parameters);
    TapRecorder recorder;
    Forward(*mixer, {testing::RandomNormal({2, 3, kModelDim}, 1, at::kFloat)},
            {.taps = TapScope(recorder)});
    const double first = layer == 0 ? -2 : -0.5;  // -8/4 (1 - l/4)
    const at::Tensor expected = at::tensor({0., first, 2 * first, 3 * first}, at::kFloat);
    CHECK(recorder.records.at("log_decay").equal(expected.expand({2, 3, 4})));
  }
}

TEST_CASE("lightning: the recurrence of its page, by hand") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kHeadDim = kModelDim / 2;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"output_gate", "none"}}, 1, parameters);
  const at::Tensor x = testing::RandomNormal({1, 6, kModelDim}, 1);
  const at::Tensor qkv = x[0].matmul(parameters.parameters()[0].tensor.t());
  at::Tensor expected = at::zeros({6, kModelDim}, at::kDouble);
  for (std::int64_t h = 0; h < 2; ++h) {
    at::Tensor state = at::zeros({kHeadDim, kHeadDim}, at::kDouble);
    const auto head = [&](std::int64_t t, std::int64_t part) {
      return qkv[t].narrow(0, part * kModelDim + h * kHeadDim, kHeadDim);
    };
    for (std::int64_t t = 0; t < 6; ++t) {
      state = state * std::exp(-8. / 2 * (1 - 1. / 4) * static_cast<double>(h)) +
              head(t, 1).outer(head(t, 2));
      const at::Tensor o = state.t().matmul(head(t, 0)) / std::sqrt(1. * kHeadDim);
      expected[t].narrow(0, h * kHeadDim, kHeadDim).copy_(o / (o.square().mean() + 1e-5).sqrt());
    }
  }
  for (const Parameter& parameter : parameters.parameters()) {
    if (parameter.name == "o_proj.weight") expected = expected.matmul(parameter.tensor.t());
  }
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(testing::RelativeError(Forward(*mixer, {x}, {.path = path}).y[0], expected) < 1e-12);
  }
}

TEST_CASE("lightning: parameters, state and a decay that is none") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  const auto mixer = Make({}, 0, parameters);
  CHECK(parameters.num_elements() == 5 * kModelDim * kModelDim + kModelDim / 2);
  CHECK(SizeOf(mixer->InitialState(1)).recurrent == kModelDim * kModelDim / 2);
  CHECK_THROWS_WITH(Make({{"max_decay", 0}}, 0, parameters),
                    Catch::Matchers::StartsWith("/mixer/max_decay: "));
}

}  // namespace
}  // namespace mixerbench::models::lightning
