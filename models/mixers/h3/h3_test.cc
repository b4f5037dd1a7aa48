// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/h3/h3.h"

#include <numbers>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::h3 {

void Register(MixerRegistry& registry);

namespace {

struct Model : testing::MadeMixer {
  Model(Object config, std::int64_t d_model)
      : MadeMixer(Register, std::move(config), {.d_model = d_model, .max_seq_len = 64},
                  InitPolicy::kDefault) {}
};

TEST_CASE("h3: counts") {
  CHECK(Model({{"d_state", 16}, {"head_dim", 2}}, 64).parameters.num_elements() == 20352);
  CHECK(Model({{"d_state", 64}, {"head_dim", 2}}, 64).parameters.num_elements() == 31104);
  CHECK(Model({{"d_state", 32}, {"head_dim", 2}}, 128).parameters.num_elements() == 80640);
  const Model model({{"d_state", 8}, {"head_dim", 2}}, 6);
  CHECK(SizeOf(model.mixer->InitialState(1)).recurrent == 6 * 2 * 8);
  CHECK(SizeOf(model.mixer->InitialState(1)).conv == 6 * 8);
}

// With a diagonal system that answers nothing, s is the skip: y = W_o (q sum (k' v) D) + b_o.
TEST_CASE("h3: the shift is the register of its equations") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kReach = 4;
  const Model model({{"d_state", kReach}}, 3);
  model["C"].zero_();
  model["shift.B"].copy_(testing::RandomNormal({3, kReach}, 9));
  const at::Tensor x = testing::RandomNormal({1, 9, 3}, 1);
  const auto qkv = (x[0].matmul(model["in_proj.weight"].t()) + model["in_proj.bias"]).chunk(3, -1);
  at::Tensor cell = model["shift.B"] * 0;  // s_t[n] = s_{t-1}[n-1] + B[n] k_t
  std::vector<at::Tensor> outputs;
  for (std::int64_t t = 0; t < 9; ++t) {
    const at::Tensor k = qkv[1][t];
    at::Tensor next = model["shift.B"] * k.unsqueeze(-1);
    next.narrow(1, 1, kReach - 1).add_(cell.narrow(1, 0, kReach - 1));
    cell = next;
    const at::Tensor shifted = (model["shift.C"] * cell).sum(-1) + model["shift.D"] * k;
    const at::Tensor y = qkv[0][t] * shifted * qkv[2][t] * model["D"];
    outputs.push_back(y.matmul(model["out_proj.weight"].t()) + model["out_proj.bias"]);
  }
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(testing::RelativeError(Forward(*model.mixer, {x}, {.path = path}).y[0],
                                 at::stack(outputs)) < 1e-12);
  }
}

TEST_CASE("h3: every head starts with the modes of S4D-Lin") {
  const Model model({{"d_state", 8}, {"head_dim", 2}}, 6);
  const at::Tensor n = at::arange(4, at::TensorOptions(at::kDouble)).expand({3, 4});
  CHECK(testing::RelativeError(model["A_imag"], n * std::numbers::pi) < 1e-15);
  CHECK(testing::RelativeError(-model["A_real"].exp(), n * 0 - 0.5) < 1e-15);
}

TEST_CASE("h3: impossible options are named") {
  CHECK_THROWS_WITH(Model({{"d_state", 5}}, 8), Catch::Matchers::StartsWith("/mixer/d_state: "));
  CHECK_THROWS_WITH(Model({{"head_dim", 3}}, 8), Catch::Matchers::StartsWith("/mixer/head_dim: "));
}

}  // namespace
}  // namespace mixerbench::models::h3
