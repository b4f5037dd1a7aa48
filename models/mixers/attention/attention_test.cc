// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/attention/attention.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::attention {

void Register(MixerRegistry& registry);

namespace {

constexpr std::int64_t kModelDim = 16;

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = kModelDim},
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

TEST_CASE("attention: the slopes of ALiBi, of powers of two and of others") {
  const auto equal = [](std::int64_t num_heads, const std::vector<double>& slopes) {
    return AlibiSlopes(num_heads).equal(at::tensor(slopes, at::kDouble));
  };
  CHECK(equal(1, {std::exp2(-8)}));
  CHECK(equal(4, {0.25, 0.0625, std::exp2(-6), std::exp2(-8)}));
  CHECK(equal(3, {0.0625, std::exp2(-8), 0.25}));  // those of 2 heads, then the first of 4
  CHECK(equal(6, {0.25, 0.0625, std::exp2(-6), std::exp2(-8), 0.5, 0.125}));
}

// The maths of attention.md written out, with every option.
TEST_CASE("attention: norm, slopes and sink are where the page has them") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kHeads = 4;
  constexpr std::int64_t kHeadDim = kModelDim / kHeads;
  const at::Tensor x = testing::RandomNormal({1, 5, kModelDim}, 1);
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"num_heads", kHeads},
                           {"num_kv_heads", 2},
                           {"position", "alibi"},
                           {"qk_norm", true},
                           {"sinks", true}},
                          parameters);
  std::map<std::string, at::Tensor> p;
  for (const Parameter& parameter : parameters.parameters()) {
    p[parameter.name] = parameter.tensor;
    if (parameter.role == ParameterRole::kNormWeight || parameter.name == "sinks") {
      at::Tensor tensor = parameter.tensor;
      tensor.copy_(testing::RandomUniform(tensor.sizes(), 9) + 0.5);
    }
  }
  CHECK(p.at("q_norm.weight").sizes() == at::IntArrayRef({kHeadDim}));
  const auto norm = [&](const at::Tensor& head, const char* name) {
    return head / (head.square().mean(-1, true) + 1e-5).sqrt() * p.at(name);
  };
  const at::Tensor qkv = x[0].matmul(p.at("qkv_proj.weight").t()) + p.at("qkv_proj.bias");
  const at::Tensor slopes = AlibiSlopes(kHeads);
  at::Tensor expected = at::zeros({5, kModelDim}, at::kDouble);
  for (std::int64_t h = 0; h < kHeads; ++h) {
    const std::int64_t group = h / 2;
    const auto q = norm(qkv.narrow(1, h * kHeadDim, kHeadDim), "q_norm.weight");
    const auto k = norm(qkv.narrow(1, kModelDim + group * kHeadDim, kHeadDim), "k_norm.weight");
    const auto v = qkv.narrow(1, kModelDim + (2 + group) * kHeadDim, kHeadDim);
    for (std::int64_t i = 0; i < 5; ++i) {
      at::Tensor sum = at::zeros({kHeadDim}, at::kDouble);
      at::Tensor denominator = p.at("sinks")[h].exp();
      for (std::int64_t j = 0; j <= i; ++j) {
        const auto weight = (q[i].dot(k[j]) / 2 - slopes[h] * static_cast<double>(i - j)).exp();
        sum = sum + weight * v[j];
        denominator = denominator + weight;
      }
      expected[i].narrow(0, h * kHeadDim, kHeadDim).copy_(sum / denominator);
    }
  }
  expected = expected.matmul(p.at("out_proj.weight").t()) + p.at("out_proj.bias");
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(testing::RelativeError(Forward(*mixer, {x}, {.path = path}).y[0], expected) < 1e-12);
  }
}

TEST_CASE("attention: the parameters of grouped heads, with everything") {
  const auto count = [](Object config) {
    ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
    config["qkv_bias"] = false;
    config["out_bias"] = false;
    Make(std::move(config), parameters);
    return parameters.num_elements();
  };
  constexpr std::int64_t kSquare = kModelDim * kModelDim;
  CHECK(count({}) == 4 * kSquare);
  CHECK(count({{"num_heads", 4}, {"num_kv_heads", 1}}) == 2 * kSquare + 2 * kSquare / 4);
  CHECK(count({{"num_heads", 4}, {"qk_norm", true}, {"sinks", true}}) == 4 * kSquare + 2 * 4 + 4);
}

// Golden vector D9: weights of 0.4 on the first token and of 0.1 do not count.
TEST_CASE("attention: the tap tells how far back each token looks, in pieces too") {
  const at::NoGradGuard no_grad;
  const at::Tensor weights =
      at::tensor({1., 0., 0., 0., 0.6, 0.4, 0., 0., 0.5, 0.3, 0.2, 0., 0.3, 0.5, 0.1, 0.1},
                 at::kDouble)
          .view({4, 4});
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = testing::MakeMixer(Register, {{"num_heads", 1}, {"qkv_bias", false}},
                                        {.d_model = 4}, ParameterScope(parameters));
  at::Tensor qkv = parameters.parameters().front().tensor;  // [12,4]
  REQUIRE(qkv.sizes() == at::IntArrayRef({12, 4}));
  // One token a channel: query i scores log A_ij with key j, which is unit vector j.
  qkv.narrow(0, 0, 4).copy_((weights.log() * 2).clamp_min(-100).t());
  qkv.narrow(0, 4, 4).copy_(at::eye(4, at::kDouble));
  const at::Tensor x = at::eye(4, at::kDouble).unsqueeze(0);
  const auto expected = at::tensor({0., 0., 0.3, 1.}, at::kDouble);
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    TapRecorder whole, begin, end;
    Forward(*mixer, {x}, {.path = path, .taps = TapScope(whole)});
    const auto distance = [](const TapRecorder& recorder) {
      return recorder.records.at("attention_distance").flatten();
    };
    CHECK((distance(whole) - expected).abs().max().item<double>() < 1e-6);  // float32 copies
    const auto begun = Forward(*mixer, {x.narrow(1, 0, 2)},
                               {.path = path, .want_final_state = true, .taps = TapScope(begin)});
    Forward(*mixer, {x.narrow(1, 2, 2)},
            {.path = path, .initial_state = &begun.final_state, .taps = TapScope(end)});
    CHECK((at::cat({distance(begin), distance(end)}) - expected).abs().max().item<double>() < 1e-6);
  }
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
  CHECK_THROWS_WITH(Make({{"rotary_dim", 4}}, parameters),
                    "/mixer/rotary_dim: is of position rope");
  CHECK_THROWS_WITH(Make({{"dropout", 1}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/dropout: "));
}

}  // namespace
}  // namespace mixerbench::models::attention
