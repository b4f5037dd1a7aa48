// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/sila/sila.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::sila {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 16;
constexpr double kTolerance = 1e-6;  // taps are float32

struct Model : testing::MadeMixer {
  explicit Model(Object config, std::int64_t d_model = kModelDim)
      : MadeMixer(Register, std::move(config), {.d_model = d_model}) {}
};

// Values of a loop over tokens in Python, written from the equations of sila.md.
TEST_CASE("sila: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"conv_size", 2}}, {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "write_memory", "forget_memory",
                                            "conv.weight", "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {0.006122964725044967, 0.0008274758256440976, -0.007682297143615175, 0.013649388167094378,
       0.005410058390735318, -0.0019621520323284966, -0.0017124914294386637, 0.00518924739836994,
       0.014241756870597434, -0.0035062193240851395, -0.00763448051372303, 0.017892975522943947},
      {0.021627075142166087, -0.015792083358480112, 0.0574211986722344, -0.01316732475612801,
       0.024034075144273442, -0.020854876298834583, 0.01610158177281999, -0.023969621906552982});
}

TEST_CASE("sila: parameters and state have the published sizes") {
  constexpr std::int64_t kDim = 64;
  const Model model({}, kDim);
  // 5 d^2 + 3 d H + 2 H V, convolutions of width 4 and a norm of V.
  CHECK(model.parameters.num_elements() == 5 * 64 * 64 + 3 * 64 * 2 + 2 * 2 * 32 + 3 * 64 * 4 + 32);
  const StateSize size = SizeOf(model.mixer->InitialState(1));
  CHECK(size.recurrent == 2 * 32 * 32);
  CHECK(size.conv == 3 * 4 * 64);
}

TEST_CASE("sila: with weights of zero for the memory the gates are those of the token") {
  const at::NoGradGuard no_grad;
  const Model with({}), without({{"memory_gates", false}});
  for (const auto& parameter : without.parameters.parameters()) {
    parameter.tensor.copy_(with[parameter.name]);
  }
  const at::Tensor x = RandomNormal({2, 19, kModelDim}, 1);
  const at::Tensor expected = Forward(*without.mixer, {x}).y;
  CHECK(RelativeError(Forward(*with.mixer, {x}).y, expected) < 1e-12);
  with["write_memory"].add_(1);
  CHECK(RelativeError(Forward(*with.mixer, {x}).y, expected) > 1e-3);
}

TEST_CASE("sila: an initial memory that was learned is read by the first token, in steps too") {
  const at::NoGradGuard no_grad;
  const Model model({{"learn_initial_memory", true}, {"memory_init_std", 0.5}});
  const at::Tensor x = RandomNormal({2, 3, kModelDim}, 1);
  const at::Tensor before = Forward(*model.mixer, {x}).y;
  model["initial_memory"].copy_(RandomNormal({2, 8, 8}, 2));
  const at::Tensor after = Forward(*model.mixer, {x}).y;
  CHECK(RelativeError(after.select(1, 0), before.select(1, 0)) > 1e-3);
  State state = model.mixer->InitialState(2);
  CHECK(RelativeError(Step(*model.mixer, {x.narrow(1, 0, 1)}, state), after.select(1, 0)) < 1e-12);
}

// The first pass finds the means, the second forces them: what was recalled after a forced token is
// what it recalls in a recurrence with that gate.
TEST_CASE("sila: an overridden write gate is its mean of the first pass, and later gates follow") {
  const at::NoGradGuard no_grad;
  const Model model({{"memory_init_std", 1}});
  const at::Tensor x = RandomNormal({2, 11, kModelDim}, 1);
  TapRecorder plain, overridden;
  Forward(*model.mixer, {x}, {.taps = TapScope(plain)});
  at::Tensor mask = at::zeros({2, 11}, at::kBool);
  mask.select(1, 4).fill_(true);
  overridden.override_write_gate = mask;
  Forward(*model.mixer, {x}, {.taps = TapScope(overridden)});
  const at::Tensor before = plain.records.at("write_gate");
  const at::Tensor after = overridden.records.at("write_gate");
  CHECK(RelativeError(after.select(1, 4), before.mean(1)) < kTolerance);
  CHECK(RelativeError(after.slice(1, 0, 4), before.slice(1, 0, 4)) < kTolerance);
  CHECK(RelativeError(after.slice(1, 5), before.slice(1, 5)) > 1e-6);
  CHECK(RelativeError(overridden.records.at("recalled").slice(1, 0, 5),
                      plain.records.at("recalled").slice(1, 0, 5)) < kTolerance);
  for (const char* name : {"alpha", "log_decay", "surprise", "ignored"}) {
    CHECK(plain.records.at(name).sizes() == at::IntArrayRef({2, 11, 2}));
  }
  CHECK(plain.records.at("log_decay").max().item<double>() <= 0);
}

TEST_CASE("sila: without a convolution silu stays") { testing::CheckOnlyConvolutionGoes(Register); }

TEST_CASE("sila: impossible options are errors that name the option") {
  CHECK_THROWS_WITH(Model({{"memory_init_std", -1}}),
                    Catch::Matchers::StartsWith("/mixer/memory_init_std: "));
  CHECK_THROWS_WITH(Model({{"memory_gates", false}, {"cross_head", true}}),
                    Catch::Matchers::StartsWith("/mixer/cross_head: "));
}

}  // namespace
}  // namespace mixerbench::models::sila
