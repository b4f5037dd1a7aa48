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
