// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/log_linear/log_linear.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::log_linear {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

struct Model : testing::MadeMixer {
  explicit Model(Object config, std::int64_t d_model = 16)
      : MadeMixer(Register, std::move(config), {.d_model = d_model, .max_seq_len = 100}) {}
};

// Values of a loop over tokens in Python, written from the equations of log_linear.md.
TEST_CASE("log_linear: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"head_k_dim", 2}, {"num_levels", 3}, {"conv_size", 2}},
                                {.d_model = 4});
  testing::FillParameters(made.parameters,
                          {"in_proj.weight", "in_proj.bias", "conv.weight", "conv.bias", "A_log",
                           "dt_bias", "D", "level_scale", "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {0.051780317642498054, -0.22648530605647238, 0.37501871275667614, -0.48021671259981247,
       -0.17722171643746754, 0.07146642634887843, 0.04254718941013736, -0.15164425113866487,
       0.07162107249814195, -0.22480693803089888, 0.35201516620191386, -0.43854616966836846},
      {{"levels",
        {-0.012841084050150008,
         -0.025697227357812207,
         -0.02806232760181623,
         -0.05615756502776388,
         -0.011280269176503172,
         -0.032257243716564236,
         -0.0017579518704076186,
         -0.018937559234194063,
         0.0,
         0.0,
         0.0,
         0.0,
         -0.008067245439008582,
         -0.013744953547696727,
         -0.017629795387179327,
         -0.03003760335348836,
         -0.003990848413150098,
         -0.0011967150251446092,
         -0.001274192289516131,
         0.0005301371128119854,
         0.0,
         0.0,
         0.0,
         0.0}}});
}

TEST_CASE("log_linear: parameters and state have the sizes of the page") {
  const Model model({{"expand_v", 2}, {"bias", false}}, 64);
  // 6 d^2 + 2 d G K + d H (L + 1); A_log, dt_bias, D, level_scale; convolution with bias; norm.
  const std::int64_t levels = 8;  // of 100 tokens
  const std::int64_t channels = 2 * 64 + 2 * 64;
  CHECK(model.parameters.num_elements() ==
        6 * 64 * 64 + 2 * 64 * 64 + 64 * 2 * (levels + 1) + 2 * (3 + levels) + channels * 5 + 128);
  const StateSize size = SizeOf(model.mixer->InitialState(1));
  CHECK(size.recurrent == levels * 2 * 64 * 64);
  CHECK(size.conv == 4 * channels);
}

TEST_CASE("log_linear: decays and skips start as in Mamba-2, every level with one weight") {
  const Model model({{"num_heads", 4}});
  CHECK(RelativeError(model["A_log"].exp(), at::tensor({1., 2., 3., 4.}, at::kDouble)) < 1e-12);
  CHECK(RelativeError(model["D"], at::tensor({1., 1., 1., 1.}, at::kDouble)) == 0);
  const at::Tensor dt = (model["dt_bias"].exp() + 1).log();
  CHECK(dt.min().item<double>() >= 1e-3 * (1 - 1e-9));
  CHECK(dt.max().item<double>() <= 0.1 * (1 + 1e-9));
  CHECK(model["level_scale"].eq(1).all().item<bool>());
}

// The step multiplies the value and the decay; an override changes the first alone.
TEST_CASE("log_linear: an overridden step leaves the decay alone") {
  const at::NoGradGuard no_grad;
  const Model model({});
  const at::Tensor x = RandomNormal({2, 9, 16}, 1);
  TapRecorder plain, overridden;
  overridden.override_write_gate = RandomNormal({2, 9}, 2) > 0;
  const at::Tensor before = Forward(*model.mixer, {x}, {.taps = TapScope(plain)}).y;
  const at::Tensor after = Forward(*model.mixer, {x}, {.taps = TapScope(overridden)}).y;
  CHECK(RelativeError(overridden.records.at("log_decay"), plain.records.at("log_decay")) == 0);
  CHECK(RelativeError(overridden.records.at("write_gate"), plain.records.at("write_gate")) > 1e-3);
  CHECK(RelativeError(after, before) > 1e-9);
  CHECK(plain.records.at("level_weight").sizes() == at::IntArrayRef({2, 9, 2, 8}));
}

TEST_CASE("log_linear: the state knows its position") {
  const at::NoGradGuard no_grad;
  const Model model({});
  State state = model.mixer->InitialState(1);
  for (std::int64_t t = 0; t < 3; ++t) {
    Step(*model.mixer, {RandomNormal({1, 1, 16}, 1)}, state);
    CHECK(Find(&state, "position").item<std::int64_t>() == t + 1);
  }
}

TEST_CASE("log_linear: too few levels and groups that do not divide are errors") {
  CHECK_THROWS_WITH(Model({{"num_levels", 7}}),
                    "/mixer/num_levels: 7 levels hold 64 tokens; inputs have up to 100");
  CHECK_THROWS_WITH(Model({{"num_heads", 4}, {"num_groups", 3}}),
                    "/mixer/num_groups: 3 does not divide num_heads 4");
}

}  // namespace
}  // namespace mixerbench::models::log_linear
