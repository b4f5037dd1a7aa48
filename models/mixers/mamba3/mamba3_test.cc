// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mamba3/mamba3.h"

#include <numbers>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "models/mixers/mamba3/trapezoid.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::mamba3 {

void Register(MixerRegistry& registry);

namespace {

using testing::MadeMixer;
using testing::RandomNormal;
using testing::RandomUniform;
using testing::RelativeError;

MadeMixer Make(Object config, std::int64_t d_model, at::ScalarType dtype = at::kFloat) {
  return {Register, std::move(config), {.d_model = d_model}, InitPolicy::kZoology, dtype};
}

at::Tensor Values(const std::vector<double>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kDouble).view(shape);
}

TEST_CASE("mamba3: parameters of the published block") {
  CHECK(Make({}, 64).parameters.num_elements() == 44164);
  CHECK(Make({}, 128).parameters.num_elements() == 137992);
}

TEST_CASE("mamba3: the state is D N numbers, angles, and the last key and value") {
  const StateSize size = SizeOf(Make({}, 64).mixer->InitialState(1));
  CHECK(size.recurrent == 128 * 128 + 2 * 32);
  CHECK(size.conv == 2 * (128 + 64));
}

TEST_CASE("mamba3: steps, biases and skip start as published under every policy") {
  const MadeMixer model = Make({{"head_dim", 4}}, 64);
  const at::Tensor steps = at::softplus(model["dt_bias"]);
  CHECK(steps.min().item<double>() > 0.99e-3);
  CHECK(steps.max().item<double>() < 0.101);
  for (const char* name : {"D", "B_bias", "C_bias"}) {
    CHECK((model[name] == 1).all().item<bool>());
  }
}

// One head of one channel and four states, of which the first two turn.
TEST_CASE("mamba3: three tokens of the recurrence") {
  TrapezoidArgs args;
  args.step = Values({0.1, 0.2, 0.3}, {1, 3, 1});
  args.written_step = args.step;
  args.A = Values({-1, -0.5, -2}, {1, 3, 1});
  args.mix = Values({0.5, 0.25, 0.75}, {1, 3, 1});
  const at::Tensor turns = at::tanh(Values({0.3, -0.2, 0.5}, {1, 3, 1, 1})) * std::numbers::pi;
  const at::Tensor angles = Angles(turns * args.step.unsqueeze(-1), {});
  args.k = TurnPairs(Values({1, 0, 0.5, 0, 0, 1, 0, 0.5, 1, 1, 0, 0}, {1, 3, 1, 4}), angles);
  args.q = TurnPairs(Values({0.5, 0.5, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0.5}, {1, 3, 1, 4}), angles);
  args.v = Values({1, -1, 0.5}, {1, 3, 1, 1});
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(RelativeError(Trapezoid(args, path).o.flatten(),
                        Values({0.0250000000, 0.2700614030, 0.0523697290}, {3})) < 1e-8);
  }
}

TEST_CASE("mamba3: with all weight on the current token it is scalar decay token by token") {
  TrapezoidArgs args;
  args.q = RandomNormal({2, 7, 2, 3}, 1);
  args.k = RandomNormal({2, 7, 2, 3}, 2);
  args.v = RandomNormal({2, 7, 2, 4}, 3);
  args.step = RandomUniform({2, 7, 2}, 4);
  args.written_step = args.step;
  args.A = -RandomUniform({2, 7, 2}, 5);
  args.mix = at::ones({2, 7, 2}, at::kDouble);
  const auto result = Trapezoid(args, ExecutionPath::kFast);
  at::Tensor state = at::zeros({2, 2, 3, 4}, at::kDouble);
  for (std::int64_t t = 0; t < 7; ++t) {
    const at::Tensor step = args.step.select(1, t).unsqueeze(-1).unsqueeze(-1);
    const at::Tensor decay = (args.A.select(1, t).unsqueeze(-1).unsqueeze(-1) * step).exp();
    state = decay * state +
            step * args.k.select(1, t).unsqueeze(-1) * args.v.select(1, t).unsqueeze(-2);
    const at::Tensor o = (args.q.select(1, t).unsqueeze(-1) * state).sum(-2);
    CHECK(RelativeError(result.o.select(1, t), o) < 1e-12);
  }
  CHECK(RelativeError(result.final.state, state) < 1e-12);
}

TEST_CASE("mamba3: what reads and what is written turn together, distances stay") {
  const at::Tensor x = RandomNormal({1, 5, 2, 6}, 1);
  const at::Tensor y = RandomNormal({1, 5, 2, 6}, 2);
  const at::Tensor angles = Angles(RandomNormal({1, 5, 2, 2}, 3) * 5, RandomUniform({1, 2, 2}, 4));
  CHECK(angles.min().item<double>() >= 0);
  CHECK(angles.max().item<double>() < 2 * std::numbers::pi);
  CHECK(RelativeError((TurnPairs(x, angles) * TurnPairs(y, angles)).sum(-1), (x * y).sum(-1)) <
        1e-12);
  CHECK(TurnPairs(x, angles).narrow(-1, 4, 2).equal(x.narrow(-1, 4, 2)));
}

TEST_CASE("mamba3: impossible options are named") {
  CHECK_THROWS_WITH(Make({{"head_dim", 5}}, 16), Catch::StartsWith("/mixer/head_dim: "));
  CHECK_THROWS_WITH(Make({{"num_groups", 3}}, 64), Catch::StartsWith("/mixer/num_groups: "));
  CHECK_THROWS_WITH(Make({{"rope_fraction", 1.5}}, 16),
                    Catch::StartsWith("/mixer/rope_fraction: "));
  CHECK_THROWS_WITH(Make({{"d_state", 2}}, 16), Catch::StartsWith("/mixer/rope_fraction: "));
  CHECK_THROWS_WITH(Make({{"A_floor", 0}}, 16), Catch::StartsWith("/mixer/A_floor: "));
}

}  // namespace
}  // namespace mixerbench::models::mamba3
