// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/simple_gla/simple_gla.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_sigmoid.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::simple_gla {

void Register(MixerRegistry& registry);

namespace {

constexpr std::int64_t kModelDim = 16;
constexpr double kTolerance = 1e-6;  // taps are float32

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = kModelDim},
                            ParameterScope(parameters));
}

TEST_CASE("simple_gla: the log decay is a scaled log sigmoid of one logit a head") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"num_heads", 2}, {"gate_logit_normalizer", 4}}, parameters);
  at::Tensor in_proj_weight;
  at::Tensor decay_bias;
  for (const Parameter& parameter : parameters.parameters()) {
    if (parameter.name == "in_proj.weight") in_proj_weight = parameter.tensor;
    if (parameter.name == "decay_bias") decay_bias = parameter.tensor;
  }
  decay_bias.copy_(testing::RandomNormal({2}, 2));
  const at::Tensor x = testing::RandomNormal({2, 9, kModelDim}, 1);
  const at::Tensor weight = in_proj_weight.narrow(0, 3 * kModelDim, 2);
  const at::Tensor expected = at::log_sigmoid(x.matmul(weight.t()) + decay_bias) / 4;
  TapRecorder recorder;
  Forward(*mixer, {x}, {.taps = TapScope(recorder)});
  CHECK(testing::RelativeError(recorder.records.at("log_decay"), expected) < kTolerance);
}

TEST_CASE("simple_gla: impossible gates are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"gate_logit_normalizer", 0}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/gate_logit_normalizer: "));
  CHECK_THROWS_WITH(Make({{"conv_size", -1}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/conv_size: "));
}

}  // namespace
}  // namespace mixerbench::models::simple_gla
