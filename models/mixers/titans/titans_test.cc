// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/titans/titans.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::titans {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

struct Model : testing::MadeMixer {
  explicit Model(Object config, std::int64_t d_model = 16)
      : MadeMixer(Register, std::move(config), {.d_model = d_model}) {}
};

TEST_CASE("titans: parameters and state have the sizes of the page") {
  const Model model({}, 64);
  CHECK(model.parameters.num_elements() == 5 * 64 * 64 + 3 * 64 * 2 + 3 * 2 + 3 * 64 * 4 + 32);
  CHECK(SizeOf(model.mixer->InitialState(1)).recurrent == 2 * 2 * 32 * 32);
}

TEST_CASE("titans: gates start at a small forgetting and half a step") {
  const at::NoGradGuard no_grad;
  const Model model({{"max_step", 0.5}});
  TapRecorder recorder;
  Forward(*model.mixer, {RandomNormal({2, 9, 16}, 1)}, {.taps = TapScope(recorder)});
  const auto& records = recorder.records;
  CHECK(records.at("log_decay").exp().min().item<double>() > 0.97);  // 1 - sigmoid(-4) = 0.982
  CHECK(RelativeError(records.at("write_gate").mean(), at::sigmoid(at::zeros({})) * 0.5) < 0.1);
  CHECK(records.at("log_momentum").sizes() == at::IntArrayRef({2, 9, 2}));
  CHECK(records.at("surprise").sizes() == at::IntArrayRef({2, 9, 2}));
}

TEST_CASE("titans: an unfinished chunk is carried as its tokens") {
  const at::NoGradGuard no_grad;
  const Model model({{"mini_batch_size", 4}});
  const auto result =
      Forward(*model.mixer, {RandomNormal({2, 7, 16}, 1)}, {.want_final_state = true});
  CHECK(Find(&result.final_state, "unfinished_k").sizes() == at::IntArrayRef({2, 3, 2, 8}));
  CHECK(Find(&result.final_state, "unfinished_step").sizes() == at::IntArrayRef({2, 3, 2}));
}

TEST_CASE("titans: without a convolution silu stays") {
  testing::CheckOnlyConvolutionGoes(Register);
}

TEST_CASE("titans: impossible options are errors that name the option") {
  CHECK_THROWS_WITH(Model({{"mini_batch_size", 0}}),
                    Catch::Matchers::StartsWith("/mixer/mini_batch_size: "));
  CHECK_THROWS_WITH(Model({{"max_step", 0}}), Catch::Matchers::StartsWith("/mixer/max_step: "));
}

}  // namespace
}  // namespace mixerbench::models::titans
