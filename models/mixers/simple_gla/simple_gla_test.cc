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
#include "tests/support/mixer_checks.h"
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

// Values of a loop over tokens in Python, written from the equations of simple_gla.md.
TEST_CASE("simple_gla: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"conv_size", 2}}, {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "decay_bias", "conv.weight",
                                            "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {-0.0008295421726128136, 0.0007851331170984396, -0.0006499977540451282,
       0.00043975169339310427, 0.00283701011092387, -0.0014867494964540418, -3.531292985011283e-05,
       0.0015532947592925234, 0.003153155127466438, -0.0009728367690794917, -0.0013198980521652059,
       0.003460111633389694},
      {0.0019100046261334744, -0.00660525939931849, 0.0027972986230392315, 0.0034041241806914793,
       -0.0033452985803018465, -0.0024185379937471073, 0.003120120111969247,
       0.00039239204950309854});
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
