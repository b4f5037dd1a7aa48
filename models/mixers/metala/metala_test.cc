// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/metala/metala.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::metala {

void Register(MixerRegistry& registry);

namespace {

using testing::NewParameters;
using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 16;
constexpr double kTolerance = 1e-12;  // some roundings at 1e-16

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = kModelDim},
                            ParameterScope(parameters));
}

// Values of a loop over tokens in Python, written from the equations of metala.md.
TEST_CASE("metala: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"expand_k", 1}, {"conv_size", 2}}, {.d_model = 6});
  testing::FillParameters(made.parameters, {"conv.weight", "in_proj.weight", "gate_bias",
                                            "self_augmentation", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 6}, 30)},
      {0.06412832436949992, -0.11465240514210151, 0.04829084025780679, 0.06730219112605164,
       -0.11428209525678064, 0.04475387664419907, 0.04349447434194282, -0.12457690044650423,
       0.07865587272402065, 0.04745311491660822, -0.1251846789124028, 0.07529317208912445,
       -0.009731084965541283, 0.13728055031664918, -0.12487546573914599, -0.014837453519496538,
       0.13942391003729213, -0.12187070777933247},
      {0.002840367346924098, 0.0018043143915891136, -0.004609536658078728, 0.0030401837798884885,
       0.0019130070700199386, -0.004915928614645553, 0.0037315010166173996, 0.0023259590623809353,
       -0.0060121542172728235, 0.0027279022049644776, 0.0019553822834374067, -0.004645196853590628,
       0.0028910704044207486, 0.002054759458179882, -0.004905806523670429, 0.003572391346839913,
       0.002514607153283821, -0.006038018083476171});
}

// Bounds 2^-2.5 sqrt(6 / (64 + 32)) = 0.125 / sqrt(8) of q and k, 1/sqrt(64) of the others.
TEST_CASE("metala: the projections of q and k start smaller than others, by Xavier") {
  const testing::MadeMixer made(Register, {}, {.d_model = 64}, InitPolicy::kDefault);
  const auto rows = made["in_proj.weight"].split_with_sizes({32, 32, 64, 64});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    const double bound = i < 2 ? 0.125 / std::sqrt(8.0) : 0.125;
    const double largest = rows[i].abs().max().item<double>();
    CHECK(largest <= bound);
    CHECK(largest > 0.99 * bound);  // of 2048 draws
  }
}

TEST_CASE("metala: parameters and state have the sizes of its page") {
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);  // H 2, K 4, V 8
  // conv, gate_bias and the weights of the self-augmentation beside the projections
  CHECK(parameters.num_elements() == 4 * 16 * 16 + 4 * 16 + 16 + 8);
  const StateSize size = SizeOf(mixer->InitialState(1));
  CHECK(size.recurrent == 2 * 4 * 8);
  CHECK(size.conv == 4 * 16);
}

TEST_CASE("metala: keys are what decays leave, small at the start") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters = NewParameters();
  const auto mixer = Make({}, parameters);
  TapRecorder recorder;
  Forward(*mixer, {at::zeros({1, 3, kModelDim}, at::kDouble)}, {.taps = TapScope(recorder)});
  CHECK(RelativeError(recorder.records.at("write_gate"),
                      at::full({1, 3, 2}, 1 - std::pow(0.5, 1. / 16), at::kDouble)) < 1e-6);
  Forward(*mixer, {RandomNormal({1, 3, kModelDim}, 1) * 30}, {.taps = TapScope(recorder)});
  CHECK(RelativeError(recorder.records.at("write_gate"),
                      -recorder.records.at("log_decay").expm1().mean(-1)) < 1e-6);
}

TEST_CASE("metala: the first token reads its own value beyond what it wrote") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({2, 1, kModelDim}, 1);
  const auto read = [&](bool self_augmentation) {
    ParameterSet parameters = NewParameters();
    const auto mixer = Make({{"self_augmentation", self_augmentation}}, parameters);
    return mixer->Mix({x}, {}).tokens[0].value;
  };
  // sigmoid(0) v, and v itself from the state: o = (K^-1/2 q . k) v.
  const at::Tensor added = read(true) - read(false);
  const at::Tensor ratio = read(false) / added;
  CHECK(RelativeError(ratio, ratio.narrow(-1, 0, 1).expand_as(ratio)) < 1e-9);
}

TEST_CASE("metala: impossible options are errors that name them") {
  ParameterSet parameters = NewParameters();
  CHECK_THROWS_WITH(Make({{"conv_size", 65}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/conv_size: "));
  CHECK_THROWS_WITH(Make({{"gate_logit_normalizer", -1}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/gate_logit_normalizer: "));
}

}  // namespace
}  // namespace mixerbench::models::metala
