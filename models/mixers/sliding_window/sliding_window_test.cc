// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/sliding_window/sliding_window.h"

#include <memory>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::sliding_window {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr std::int64_t kModelDim = 16;
constexpr double kSameMaths = 1e-12;

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = kModelDim},
                            ParameterScope(parameters));
}

// Values of a loop over tokens in Python, written from the equations of sliding_window.md.
TEST_CASE("sliding window: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"window", 2}, {"position", "rope"}}, {.d_model = 4});
  testing::FillParameters(made.parameters,
                          {"qkv_proj.weight", "qkv_proj.bias", "out_proj.weight", "out_proj.bias"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 4, 4}, 30)},
      {-0.7349104150841135, -0.3208702971383349, -0.08116148846514366, -0.0031656531298480672,
       -0.7649013621200002, -0.3126636182377944, -0.06663557383482363, -0.03874561459705511,
       -0.7913061168241824, -0.27571062813086344, -0.10986668479715819, 0.005768032417288488,
       -0.7880851821417871, -0.28787769978878286, -0.09015944600633696, -0.019202097247999428},
      {{"k",
        {0.31904475735746957, -0.556481777980057, -0.514982216219916, -0.7364373089489211,
         0.579260317601295, 0.44527644989959386, -0.2644070433054908, 0.20697277503282385}},
       {"v",
        {-0.017184684314215992, 0.9099468644852379, -0.15749430924074634, 0.09035529637436504,
         1.0122760276218403, -0.08768846806353897, 0.6930335751589242, -0.5147821191628947}}});
}

TEST_CASE("sliding window: a query sees the last tokens and no others") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"window", 3}}, parameters);
  const at::Tensor x = RandomNormal({1, 12, kModelDim}, 1);
  at::Tensor changed = x.clone();
  changed.select(1, 4).add_(1);
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const at::Tensor before = Forward(*mixer, {x}, {.path = path}).y[0];
    const at::Tensor after = Forward(*mixer, {changed}, {.path = path}).y[0];
    for (std::int64_t t = 0; t < 12; ++t) {
      CAPTURE(t);
      CHECK((RelativeError(after[t], before[t]) > 1e-6) == (t >= 4 && t < 7));
    }
  }
}

// The distance to a token decides, not where the sequence begins: absolute positions of rope and a
// buffer that has gone round many times.
TEST_CASE("sliding window: what lies before the window does not matter, wherever it is") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"window", 4}, {"position", "rope"}}, parameters);
  const at::Tensor x = RandomNormal({1, 40, kModelDim}, 1);
  State state = mixer->InitialState(1);
  at::Tensor last;
  for (std::int64_t t = 0; t < 40; ++t) last = Step(*mixer, {x.narrow(1, t, 1)}, state);
  const at::Tensor alone = Forward(*mixer, {x.narrow(1, 36, 4)}).y.select(1, 3);
  CHECK(RelativeError(last, alone) < 1e-10);
  CHECK(Find(&state, "position").item<std::int64_t>() == 40);
}

TEST_CASE("sliding window: the state has the published size from the first token on") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  const auto mixer = Make({{"window", 32}, {"num_heads", 4}, {"num_kv_heads", 2}}, parameters);
  const std::int64_t expected = 2 * 2 * 4 * 32;
  CHECK(SizeOf(mixer->InitialState(1), 1000).recurrent == expected);
  const auto result =
      Forward(*mixer, {RandomNormal({1, 5, kModelDim}, 1, at::kFloat)}, {.want_final_state = true});
  CHECK(SizeOf(result.final_state).recurrent == expected);
  CHECK(Find(&result.final_state, "k").narrow(1, 0, 27).count_nonzero().item<std::int64_t>() == 0);
  // zoology: one head over all channels, 2 w d.
  ParameterSet one_head(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  CHECK(SizeOf(Make({{"window", 8}, {"num_heads", 1}}, one_head)->InitialState(1)).recurrent ==
        2 * 8 * kModelDim);
}

TEST_CASE("sliding window: a window without keys is an error that names the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  CHECK_THROWS_WITH(Make({{"window", 0}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/window: "));
}

}  // namespace
}  // namespace mixerbench::models::sliding_window
