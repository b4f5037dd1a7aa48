// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/attention/attention.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::attention {

void Register(MixerRegistry& registry);

namespace {

constexpr std::int64_t kModelDim = 16;

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  MixerRegistry registry("mixer");
  Register(registry);
  config["name"] = "attention";
  return CreateMixer(config, "/mixer", {.d_model = kModelDim, .registry = &registry},
                     ParameterScope(parameters));
}

TEST_CASE(
    "attention: without positions the order of earlier tokens does not matter, with rope it does") {
  const at::NoGradGuard no_grad;
  constexpr double kSameMaths = 1e-12;
  const at::Tensor x = testing::RandomNormal({2, 9, kModelDim}, 1);
  at::Tensor swapped = x.clone();
  swapped.select(1, 2).copy_(x.select(1, 5));
  swapped.select(1, 5).copy_(x.select(1, 2));
  const auto last = [&](const char* position, const at::Tensor& input) {
    ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
    return Forward(*Make({{"position", position}}, parameters), {input}).y.select(1, 8);
  };
  CHECK(testing::RelativeError(last("none", swapped), last("none", x)) < kSameMaths);
  CHECK(testing::RelativeError(last("rope", swapped), last("rope", x)) > 1e-3);
}

TEST_CASE("attention: dropout needs a generator and follows its seed") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = testing::RandomNormal({2, 9, kModelDim}, 1, at::kFloat);
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  const auto mixer = Make({{"dropout", 0.5}}, parameters);
  const auto run_with_seed = [&](std::uint64_t seed) {
    return Forward(*mixer, {x}, {.generator = at::detail::createCPUGenerator(seed)}).y;
  };
  ParameterSet same(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  CHECK(Forward(*mixer, {x}).y.equal(Forward(*Make({}, same), {x}).y));
  CHECK(run_with_seed(1).equal(run_with_seed(1)));
  CHECK_FALSE(run_with_seed(1).equal(run_with_seed(2)));
}

TEST_CASE("attention: the cache holds one key and value head for each group") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  const auto mixer = Make({{"num_heads", 4}, {"num_kv_heads", 2}}, parameters);
  const State state = Forward(*mixer, {testing::RandomNormal({3, 9, kModelDim}, 1, at::kFloat)},
                              {.want_final_state = true})
                          .final_state;
  CHECK(Find(&state, "k").sizes() == at::IntArrayRef({3, 9, 2, 4}));
  CHECK(Find(&state, "v").sizes() == at::IntArrayRef({3, 9, 2, 4}));
}

TEST_CASE("attention: impossible sizes are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  CHECK_THROWS_WITH(Make({{"num_heads", 3}}, parameters),
                    "/mixer/num_heads: 3 does not divide d_model 16");
  CHECK_THROWS_WITH(Make({{"num_heads", 4}, {"num_kv_heads", 3}}, parameters),
                    "/mixer/num_kv_heads: 3 does not divide num_heads 4");
  CHECK_THROWS_WITH(Make({{"position", "rope"}, {"rotary_dim", 10}}, parameters),
                    "/mixer/rotary_dim: 10 is not in 2..8");
  CHECK_THROWS_WITH(Make({{"position", "rope"}, {"rotary_dim", 3}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/rotary_dim: "));
  CHECK_THROWS_WITH(Make({{"dropout", 1}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/dropout: "));
}

}  // namespace
}  // namespace mixerbench::models::attention
