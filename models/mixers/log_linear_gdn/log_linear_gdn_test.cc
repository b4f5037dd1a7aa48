// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/log_linear_gdn/log_linear_gdn.h"

#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::log_linear_gdn {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

struct Model : testing::MadeMixer {
  explicit Model(Object config, std::int64_t d_model = 16)
      : MadeMixer(Register, std::move(config), {.d_model = d_model, .max_seq_len = 100}) {}
};

// Values of a loop over tokens in Python, written from the equations of log_linear_gdn.md.
TEST_CASE("log_linear_gdn: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"expand_v", 1}, {"num_levels", 3}, {"conv_size", 2}},
                                {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "conv.weight", "A_log", "dt_bias",
                                            "level_scale", "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {-0.07149127103311563, 0.07681648155174724, -0.0732651390661205, 0.061247620088842394,
       0.01792728082137669, 0.00048157554771599553, -0.018834783300932204, 0.03501153166786652,
       -0.04368598189937768, 0.025897563890268316, -0.005116544633231833, -0.016255718569349566},
      {{"levels",
        {-0.01500786673793139,
         -0.007068430838913325,
         0.02292064657400033,
         0.010795205469276977,
         0.011683106126392584,
         -0.0033431138819725865,
         0.0159774826978391,
         -0.0012761973830723227,
         0.0,
         0.0,
         0.0,
         0.0,
         0.004196078629594904,
         -0.001665065582334674,
         0.030764924950380038,
         -0.012207973729732629,
         0.005689795658832223,
         -0.0015670373249206272,
         0.008023677175468097,
         -0.009901784461883546,
         0.0,
         0.0,
         0.0,
         0.0}}});
}

TEST_CASE("log_linear_gdn: parameters and state have the sizes of the page") {
  constexpr std::int64_t d = 64, heads = 2, levels = 8;  // of 100 tokens
  const Model model({}, d);
  CHECK(model.parameters.num_elements() == 5 * d * d + 2 * d * heads + d * heads * levels +
                                               2 * heads + heads * levels + 4 * 3 * d + d / heads);
  const StateSize size = SizeOf(model.mixer->InitialState(1));
  CHECK(size.recurrent == levels * d * d / heads);
  CHECK(size.conv == 4 * 3 * d);
}

TEST_CASE("log_linear_gdn: an overridden write strength acts from the token on, decays stay") {
  const at::NoGradGuard no_grad;
  const Model model({});
  const at::Tensor x = RandomNormal({2, 9, 16}, 1);
  TapRecorder plain, overridden;
  overridden.override_write_gate = at::zeros({2, 9}, at::TensorOptions(at::kBool));
  overridden.override_write_gate->select(1, 4).fill_(true);
  const at::Tensor before = Forward(*model.mixer, {x}, {.taps = TapScope(plain)}).y;
  const at::Tensor after = Forward(*model.mixer, {x}, {.taps = TapScope(overridden)}).y;
  CHECK(RelativeError(overridden.records.at("log_decay"), plain.records.at("log_decay")) == 0);
  CHECK(RelativeError(after.narrow(1, 0, 4), before.narrow(1, 0, 4)) == 0);
  CHECK(RelativeError(after.narrow(1, 4, 5), before.narrow(1, 4, 5)) > 1e-9);
  CHECK(plain.records.at("write_gate").sizes() == at::IntArrayRef({2, 9, 2}));
  CHECK(plain.records.at("level_weight").sizes() == at::IntArrayRef({2, 9, 2, 8}));
}

TEST_CASE("log_linear_gdn: too few levels and heads that do not divide are errors") {
  CHECK_THROWS_WITH(Model({{"num_levels", 7}}),
                    "/mixer/num_levels: 7 levels hold 64 tokens; inputs have up to 100");
  CHECK_THROWS_WITH(Model({{"num_v_heads", 3}}),
                    "/mixer/num_v_heads: 3 is not a multiple of num_heads 2");
}

}  // namespace
}  // namespace mixerbench::models::log_linear_gdn
