// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/lru/lru.h"

#include <cmath>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::lru {

void Register(MixerRegistry& registry);

namespace {

struct Model : testing::MadeMixer {
  explicit Model(Object config)
      : MadeMixer(Register, std::move(config), {.d_model = 8, .max_seq_len = 64}) {}
};

at::Tensor Complex(const at::Tensor& pairs) {
  const auto parts = pairs.unbind(-1);
  return at::complex(parts[0].contiguous(), parts[1].contiguous());
}

TEST_CASE("lru: factors start in their ring, normalised, whatever the policy") {
  const Model model({{"d_state", 256}, {"r_min", 0.5}, {"r_max", 0.9}, {"max_phase", 0.4}});
  const at::Tensor modulus = (-model["nu_log"].exp()).exp();
  CHECK(modulus.min().item<double>() >= 0.5);
  CHECK(modulus.max().item<double>() < 0.9);
  CHECK(model["theta_log"].exp().max().item<double>() <= 0.4);
  const at::Tensor gamma = model["gamma_log"].exp();
  CHECK(testing::RelativeError(gamma.square() + modulus.square(), gamma * 0 + 1) < 1e-12);
  CHECK(std::abs(model["B"].var().item<double>() * 16 - 1) < 0.1);
  CHECK(std::abs(model["C"].var().item<double>() * 256 - 1) < 0.1);
}

TEST_CASE("lru: the equations of lru.md, token by token") {
  const at::NoGradGuard no_grad;
  const Model model({{"d_state", 5}});
  const at::Tensor u = testing::RandomNormal({1, 7, 8}, 1);
  const at::Tensor factor =
      at::complex((-model["nu_log"].exp()).exp() * model["theta_log"].exp().cos(),
                  (-model["nu_log"].exp()).exp() * model["theta_log"].exp().sin());
  at::Tensor x = factor * 0;
  std::vector<at::Tensor> outputs;
  for (std::int64_t t = 0; t < 7; ++t) {
    const at::Tensor token = u[0][t];
    x = factor * x +
        model["gamma_log"].exp() * at::matmul(Complex(model["B"]), token.to(at::kComplexDouble));
    outputs.push_back(at::real(at::matmul(Complex(model["C"]), x)) + model["D"] * token);
  }
  const auto mixed = model.mixer->Mix({u}, {});
  CHECK(testing::RelativeError(mixed.tokens[0].value[0], at::stack(outputs)) < 1e-12);
}

TEST_CASE("lru: counts") {
  const Model model({{"d_state", 5}});
  CHECK(model.parameters.num_elements() == 3 * 5 + 4 * 5 * 8 + 8 + 2 * 64 + 16);
  const State state = model.mixer->InitialState(1);
  CHECK(Find(&state, "state").numel() == 5);
}

TEST_CASE("lru: impossible options are named") {
  CHECK_THROWS_WITH(Model({{"r_max", 1.5}}), Catch::Matchers::StartsWith("/mixer/r_max: "));
  CHECK_THROWS_WITH(Model({{"r_min", -1}}), Catch::Matchers::StartsWith("/mixer/r_min: "));
  CHECK_THROWS_WITH(Model({{"max_phase", 0}}), Catch::Matchers::StartsWith("/mixer/max_phase: "));
}

}  // namespace
}  // namespace mixerbench::models::lru
