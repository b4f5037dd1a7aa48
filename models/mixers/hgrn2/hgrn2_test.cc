// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/hgrn2/hgrn2.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::hgrn2 {

void Register(MixerRegistry& registry);

namespace {

using testing::NewParameters;
using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 16;
constexpr double kTolerance = 1e-12;  // some roundings at 1e-16

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters, std::int64_t layer = 0,
                            std::int64_t num_layers = 1) {
  return testing::MakeMixer(Register, std::move(config),
                            {.d_model = kModelDim, .layer_index = layer, .num_layers = num_layers},
                            ParameterScope(parameters).Child("layers." + std::to_string(layer)));
}

// Values of a loop over tokens in Python, written from the equations of hgrn2.md.
TEST_CASE("hgrn2: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {}, {.d_model = 4, .layer_index = 1, .num_layers = 2});
  testing::FillParameters(made.parameters, {"in_proj.weight", "shared.hgrn2.lower_bounds_2x2",
                                            "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {0.06312375164932206, -0.08611198528413969, 0.09914952101877227, -0.100729802256828,
       -0.08957518893457733, 0.11977129626748127, -0.13612719329355383, 0.13675286911993292,
       0.10309995426527534, -0.12497704554303302, 0.13241237449754462, -0.12454674932210981},
      {-0.16541599547318453, 0.14315100897939076, -0.053687373439381986, 0.05259094792933565,
       -0.0800358914779041, 0.035894319187089796, -0.011713056475542424, 0.007336770151445359});
}

TEST_CASE("hgrn2: parameters and state have the sizes of its page") {
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);  // H 2, K = V = 8
  CHECK(parameters.num_elements() == 4 * 16 * 16 + 16);
  CHECK(SizeOf(mixer->InitialState(1)).recurrent == 16 * 8);
}

TEST_CASE("hgrn2: bounds rise evenly with the layer at the start, and keys are 1 - alpha") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kLayers = 4;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    ParameterSet parameters = NewParameters(kLayers);
    const auto mixer = Make({}, parameters, layer, kLayers);
    TapRecorder recorder;
    Forward(*mixer, {at::zeros({1, 3, kModelDim}, at::kDouble)}, {.taps = TapScope(recorder)});
    const double bound = static_cast<double>(layer) / kLayers;
    const double alpha = bound + (1 - bound) / 2;
    CHECK(RelativeError(recorder.records.at("log_decay"),
                        at::full({1, 3, 2, 8}, std::log(alpha), at::kDouble)) < 1e-6);
    CHECK(RelativeError(recorder.records.at("write_gate"),
                        at::full({1, 3, 2}, 1 - alpha, at::kDouble)) < 1e-6);
  }
}

TEST_CASE("hgrn2: log decays follow the definition at any logit, and have gradients") {
  constexpr std::int64_t kLayers = 3;
  ParameterSet parameters = NewParameters(kLayers);
  const auto mixer = Make({}, parameters, 1, kLayers);
  const at::Tensor x = RandomNormal({2, 9, kModelDim}, 1) * 300;
  TapRecorder recorder;
  auto result = Forward(*mixer, {x}, {.taps = TapScope(recorder)});
  CHECK(recorder.records.at("log_decay").min().item<double>() >= std::log(1.0 / 3) - 1e-6);
  CHECK(recorder.records.at("log_decay").max().item<double>() <= 0);
  result.y.sum().backward();
  for (const Parameter& parameter : parameters.parameters()) {
    CAPTURE(parameter.name);
    CHECK(at::isfinite(parameter.tensor.grad()).all().item<bool>());
  }
}

TEST_CASE("hgrn2: all layers share one parameter of bounds") {
  constexpr std::int64_t kLayers = 3;
  ParameterSet parameters = NewParameters(kLayers);
  const at::Tensor x = RandomNormal({2, 5, kModelDim}, 1);
  at::Tensor y = x;
  std::vector<std::unique_ptr<Mixer>> layers;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    layers.push_back(Make({}, parameters, layer, kLayers));
    y = y + Forward(*layers.back(), {y}).y;
  }
  std::int64_t found = 0;
  for (const Parameter& parameter : parameters.parameters()) {
    if (parameter.name != "shared.hgrn2.lower_bounds_2x8") continue;
    ++found;
    CHECK(parameter.tensor.sizes() == at::IntArrayRef({kLayers, 2, 8}));
    CHECK_FALSE(parameter.weight_decay);
    y.square().sum().backward();
    CHECK(parameter.tensor.grad().abs().min().item<double>() > 0);
  }
  CHECK(found == 1);
}

TEST_CASE("hgrn2: the convolution has no activation") {
  testing::CheckOnlyConvolutionGoes(Register);
}

TEST_CASE("hgrn2: heads that do not divide the width are an error that names the option") {
  ParameterSet parameters = NewParameters();
  CHECK_THROWS_WITH(Make({{"num_heads", 3}}, parameters), Catch::Matchers::StartsWith("/mixer/"));
}

}  // namespace
}  // namespace mixerbench::models::hgrn2
