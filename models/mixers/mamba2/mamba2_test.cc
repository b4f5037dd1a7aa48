// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mamba2/mamba2.h"

#include <cmath>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include "base/error.h"
#include "kernels/linear_attention/simple_gla/simple_gla.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::mamba2 {

void Register(MixerRegistry& registry);

namespace {

using testing::MadeMixer;
using testing::RandomNormal;
using testing::RelativeError;

MadeMixer Make(Object config, std::int64_t d_model, at::ScalarType dtype = at::kFloat) {
  return {Register, std::move(config), {.d_model = d_model}, InitPolicy::kZoology, dtype};
}

// Values of a loop over tokens in Python, written from the equations of mamba2.md.
TEST_CASE("mamba2: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(
      Register,
      {{"d_state", 2}, {"head_dim", 2}, {"num_groups", 2}, {"conv_size", 2}, {"dt_limit_max", 0.8}},
      {.d_model = 4});
  testing::FillParameters(made.parameters, {"in_proj.weight", "conv.weight", "conv.bias", "A_log",
                                            "dt_bias", "D", "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {-0.07107573743847914, -0.1902933294914677, -0.2240942890849023, -0.1573064388750552,
       0.10018633682557343, -0.037192531426305964, -0.15787685344489927, -0.20769526965054957,
       -0.4772058352019262, -0.43070880855897886, -0.19088027578236938, 0.13462835100411635},
      {-0.007095765162796156, 0.0024331291350256925, 0.01916335602393613, -0.0070229174593755,
       0.012202046033129112, 0.012766508965819833, -0.03155174193629252, -0.03351895993950719,
       -0.06661547090889948, -0.01774172452249874, -0.07105968314967727, -0.012871880991118127,
       0.04232291370732033, 0.11427664707751072, 0.042022484266100196, 0.12167099990004515});
}

TEST_CASE("mamba2: parameters of the published blocks") {
  CHECK(Make({}, 64).parameters.num_elements() == 43142);
  CHECK(Make({}, 128).parameters.num_elements() == 134412);
  CHECK(Make({{"d_state", 16}}, 64).parameters.num_elements() == 27686);
  CHECK(Make({{"d_state", 16}}, 128).parameters.num_elements() == 104620);
}

TEST_CASE("mamba2: the state has D N numbers and K (D + 2 G N) of the convolution") {
  const StateSize size = SizeOf(Make({{"num_groups", 2}}, 64).mixer->InitialState(1));
  CHECK(size.recurrent == 128 * 128);
  CHECK(size.conv == 4 * (128 + 2 * 2 * 128));
}

TEST_CASE("mamba2: rates, steps and skip start as published under every policy") {
  const MadeMixer model = Make({{"head_dim", 1}}, 128);
  const at::Tensor A = model["A_log"].exp();
  CHECK(A.sizes() == at::IntArrayRef({256}));
  // Of 256 draws from U(1,16): the mean has a standard deviation of 0.27, the ends are 0.06 away.
  CHECK(A.min().item<double>() == Approx(1).margin(0.5));
  CHECK(A.min().item<double>() > 0.999);
  CHECK(A.max().item<double>() == Approx(16).margin(0.5));
  CHECK(A.max().item<double>() < 16.001);
  CHECK(A.mean().item<double>() == Approx(8.5).margin(1));
  const at::Tensor steps = at::softplus(model["dt_bias"]);
  CHECK(steps.min().item<double>() > 0.99e-3);
  CHECK(steps.max().item<double>() < 0.101);
  CHECK((model["D"] == 1).all().item<bool>());
}

// One head of two channels and two states.
TEST_CASE("mamba2: four tokens of the recurrence, in chunks of any size") {
  const at::Tensor t = at::arange(4, at::kDouble);
  const at::Tensor step = at::softplus(at::sin(t));
  const at::Tensor x = at::stack({at::cos(t), at::sin(t)}, 1);
  kernels::RecurrenceArgs args;
  args.q = at::stack({at::sin(t + 1), at::sin(t + 2)}, 1).view({1, 4, 1, 2});
  args.k = at::stack({at::cos(t), at::cos(t - 1)}, 1).view({1, 4, 1, 2});
  args.v = (step.unsqueeze(1) * x).view({1, 4, 1, 2});
  args.log_decay = (-0.7 * step).view({1, 4, 1});
  args.scale = 1;
  for (const std::int64_t chunk_size : {1, 2, 3, 4, 16}) {
    args.chunk_size = chunk_size;
    for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
      const auto result = kernels::SimpleGla(args, path);
      CHECK(RelativeError(result.o.view({4, 2}),
                          at::tensor({0.9238033288, 0.0, 0.7049342126, 0.6385366420, 0.0251511497,
                                      -0.8174603803, -1.1190158301, -0.3479191945},
                                     at::kDouble)
                              .view({4, 2})) < 1e-8);
      // Published with channels first.
      CHECK(RelativeError(
                result.final_state.view({2, 2}).mT(),
                at::tensor({1.0359391464, 0.3493649164, -0.2499853196, 0.5601158740}, at::kDouble)
                    .view({2, 2})) < 1e-8);
    }
  }
}

TEST_CASE("mamba2: learned initial states are where a sequence starts, and get gradients") {
  const MadeMixer model = Make({{"learnable_init_states", true}, {"head_dim", 4}}, 8, at::kDouble);
  at::Tensor start = model["init_states"];
  {
    const at::NoGradGuard no_grad;
    start.copy_(RandomNormal(start.sizes(), 4));
  }
  const at::Tensor x = RandomNormal({2, 5, 8}, 3);
  const at::Tensor whole = Forward(*model.mixer, {x}).y;
  const State state = model.mixer->InitialState(2);
  CHECK(RelativeError(Forward(*model.mixer, {x}, {.initial_state = &state}).y, whole) < 1e-14);
  whole.sum().backward();
  for (const Parameter& parameter : model.parameters.parameters()) {
    if (parameter.name != "init_states") continue;
    CHECK(parameter.tensor.grad().abs().max().item<double>() > 0);
  }
}

TEST_CASE("mamba2: the norm is over the channels of a group, after the gate") {
  const at::NoGradGuard no_grad;
  // What the heads read is small: eps would show.
  const MadeMixer one =
      Make({{"head_dim", 4}, {"d_state", 4}, {"norm_eps", 1e-12}}, 8, at::kDouble);
  const MadeMixer two = Make(
      {{"head_dim", 4}, {"d_state", 4}, {"num_groups", 2}, {"norm_eps", 1e-12}}, 8, at::kDouble);
  for (const auto& [model, groups] : {std::pair(&one, 1), {&two, 2}}) {
    // The last projection is the identity on half of the channels.
    at::Tensor projection = (*model)["o_proj.weight"];
    projection.zero_();
    for (std::int64_t i = 0; i < 8; ++i) projection[i][i] = 1;
    const at::Tensor y = Forward(*model->mixer, {RandomNormal({1, 3, 8}, 5)}).y;
    const double norm = y.square().mean().item<double>();
    if (groups == 2) {  // these eight channels are one group
      CHECK(norm == Approx(1).epsilon(0.02));
    } else {
      CHECK(std::abs(norm - 1) > 0.02);
    }
  }
}

TEST_CASE("mamba2: impossible options are named") {
  CHECK_THROWS_WITH(Make({{"head_dim", 5}}, 16), Catch::StartsWith("/mixer/head_dim: "));
  CHECK_THROWS_WITH(Make({{"head_dim", -1}}, 16), Catch::StartsWith("/mixer/head_dim: "));
  CHECK_THROWS_WITH(Make({{"num_groups", 3}}, 64), Catch::StartsWith("/mixer/num_groups: "));
  CHECK_THROWS_WITH(Make({{"A_min", 17}}, 16), Catch::StartsWith("/mixer/A_min: "));
  CHECK_THROWS_WITH(Make({{"dt_limit_min", 1}, {"dt_limit_max", 0.5}}, 16),
                    Catch::StartsWith("/mixer/dt_limit_max: "));
}

}  // namespace
}  // namespace mixerbench::models::mamba2
