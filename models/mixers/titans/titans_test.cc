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

// Values of a loop over tokens in Python, written from the equations of titans.md.
TEST_CASE("titans: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"mini_batch_size", 2}, {"conv_size", 2}},
                                {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "gate_bias", "conv.weight",
                                            "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 4, 4}, 30)},
      {0.03678048325799991, -0.036799895217976525, 0.03256688355928644, -0.02457059529305254,
       0.01949183597162886, -0.007756916541680022, -0.00487435585108245, 0.01694237050019776,
       0.01747697264186765, 0.016422546957312573, -0.04842435390958754, 0.07483046921480553,
       -0.04315554231517874, 0.07534859474478257, -0.09883471629786739, 0.1108999607142163},
      {{"memory",
        {0.042891309294708295, -0.0789351275534755, 0.018962698057356123, -0.017738270694756895,
         0.024615770759637466, -0.06874785090573811, -0.014355733689459704, 0.04372423461617375}},
       {"momentum",
        {0.030107197097987516, -0.05715546584083693, 0.014087701581994534, -0.024900399598632075,
         0.03088181739250561, -0.060465155343632025, -0.019682866884914735,
         0.039680001868985494}}});
}

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
