// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/raven/raven.h"

#include <map>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::raven {

void Register(MixerRegistry& registry);

namespace {

using kernels::ExecutionPath;
using testing::BitwiseEqual;
using testing::RandomNormal;
using testing::RelativeError;

constexpr ExecutionPath kPaths[] = {ExecutionPath::kReference, ExecutionPath::kFast};

std::unique_ptr<Mixer> Make(Object config, std::int64_t d_model, ParameterSet& parameters) {
  MixerRegistry registry("mixer");
  Register(registry);
  config["name"] = "raven";
  return CreateMixer(config, "/mixer", {.d_model = d_model, .registry = &registry},
                     ParameterScope(parameters));
}

struct TestRaven {
  ParameterSet parameters{1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble};
  std::unique_ptr<Mixer> mixer;

  explicit TestRaven(Object config, std::int64_t d_model = 16)
      : mixer(Make(std::move(config), d_model, parameters)) {}
};

// Element i of the j-th parameter by name becomes 0.8 sin(1.3 i + 0.7 j).
void FillWithSines(const ParameterSet& parameters) {
  std::map<std::string, at::Tensor> by_name;
  for (const Parameter& p : parameters.parameters()) by_name[p.name] = p.tensor;
  double phase = 0;
  for (auto& [name, tensor] : by_name) {
    const at::Tensor i = at::arange(tensor.numel(), at::kDouble);
    tensor.copy_(at::sin(i * 1.3 + phase).mul(0.8).view(tensor.sizes()));
    phase += 0.7;
  }
}

// Against an implementation of its own, token by token in float64.
TEST_CASE("raven: values and states of a worked example, with both scores") {
  const at::NoGradGuard no_grad;
  struct Expected {
    const char* score;
    std::vector<double> last;
    double sum, keys, values;
  };
  const Expected cases[] = {{"sigmoid",
                             {-0.519254435734, -0.123176479781, 0.403833967155, 0.501582371880},
                             0.172628133078,
                             1.011719073275,
                             2.873323119883},
                            {"softmax",
                             {-0.517246982004, -0.123812851028, 0.401230212349, 0.499778938057},
                             0.187264888132,
                             1.034628489473,
                             2.871369176477}};
  for (const Expected& expected : cases) {
    CAPTURE(expected.score);
    const TestRaven raven({{"num_heads", 2},
                           {"num_slots", 5},
                           {"top_k", 2},
                           {"alpha", 2},
                           {"router_score", expected.score}},
                          4);
    FillWithSines(raven.parameters);
    const at::Tensor x = at::cos(at::arange(20, at::kDouble) * 0.9).view({1, 5, 4});
    const auto result = Forward(*raven.mixer, {x}, {.want_final_state = true});
    CHECK(RelativeError(result.y[0][4], at::tensor(expected.last)) < 1e-10);
    CHECK(std::abs(result.y.sum().item<double>() - expected.sum) < 1e-10);
    const at::Tensor keys = Find(&result.final_state, "keys");
    const at::Tensor values = Find(&result.final_state, "values");
    CHECK(std::abs(keys.sum().item<double>() - expected.keys) < 1e-10);
    CHECK(std::abs(values.sum().item<double>() - expected.values) < 1e-10);
  }
}

TEST_CASE("raven: state and parameters count as the page says") {
  const TestRaven raven({{"num_slots", 7}, {"top_k", 3}}, 32);
  const std::int64_t d = 32, heads = 4, width = 8, slots = 7;
  CHECK(SizeOf(raven.mixer->InitialState(1)).recurrent == heads * slots * 2 * width);
  CHECK(raven.parameters.num_elements() ==
        5 * d * d + d * heads * slots + d * heads + 2 * heads + 3 * width);
  // The published 400M model, a layer: 4 heads of 256, 256 slots.
  const TestRaven published({{"num_slots", 256}, {"top_k", 32}}, 1024);
  CHECK(SizeOf(published.mixer->InitialState(1)).recurrent == 4 * 256 * 512);
}

at::Tensor Seeded(const Mixer& mixer, const at::Tensor& x, std::uint64_t seed) {
  return Forward(mixer, {x}, {.generator = at::detail::createCPUGenerator(seed)}).y;
}

TEST_CASE("raven: noise comes with a generator alone, and the same seed replays it") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({2, 9, 16}, 1);
  const TestRaven noisy({});
  CHECK(BitwiseEqual(Seeded(*noisy.mixer, x, 3), Seeded(*noisy.mixer, x, 3)));
  CHECK(RelativeError(Seeded(*noisy.mixer, x, 3), Seeded(*noisy.mixer, x, 4)) > 1e-3);
  CHECK(RelativeError(Seeded(*noisy.mixer, x, 3), Forward(*noisy.mixer, {x}).y) > 1e-3);
  const TestRaven quiet({{"gumbel_noise", false}});
  CHECK(BitwiseEqual(Seeded(*quiet.mixer, x, 3), Forward(*quiet.mixer, {x}).y));
}

// Seeds in memory, as a captured graph has them.
TEST_CASE("raven: noise is a function of the seed in memory") {
  const at::NoGradGuard no_grad;
  const TestRaven raven({});
  const at::Tensor x = RandomNormal({2, 9, 16}, 1);
  const auto run = [&](std::int64_t seed) {
    return Forward(*raven.mixer, {x},
                   {.generator = kernels::SeedGenerator(at::full({1}, seed, at::kLong))})
        .y;
  };
  CHECK(BitwiseEqual(run(5), run(5)));
  CHECK_FALSE(BitwiseEqual(run(5), run(6)));
}

TEST_CASE("raven: the gradients of the router by hand are those of autograd") {
  struct Case {
    SlotScore score;
    std::int64_t top_k, decays;
    bool renormalises;
  };
  std::vector<Case> cases;
  for (const SlotScore score : {SlotScore::kSigmoid, SlotScore::kSoftmax}) {
    for (const std::int64_t top_k : {1, 3, 5}) {
      for (const bool renormalises : {true, false}) {
        cases.push_back({score, top_k, /*decays=*/1, renormalises});
        cases.push_back({score, top_k, /*decays=*/5, renormalises});
      }
    }
  }
  for (const Case& c : cases) {
    CAPTURE(NameOf(c.score), c.top_k, c.decays, c.renormalises);
    std::vector<at::Tensor> gradients[2];
    for (int i = 0; i < 2; ++i) {
      const at::Tensor logits = RandomNormal({2, 3, 2, 5}, 1).requires_grad_(true);
      const at::Tensor decay = (-RandomNormal({2, 3, 2, c.decays}, 2).abs()).requires_grad_(true);
      const SlotRouting routing = RouteSlots({.logits = logits,
                                              .decay = decay,
                                              .top_k = c.top_k,
                                              .alpha = 4,
                                              .renormalises = c.renormalises,
                                              .score = c.score},
                                             kPaths[i]);
      (routing.log_decay * RandomNormal({2, 3, 2, 5}, 3)).sum().backward();
      gradients[i] = {logits.grad(), decay.grad(), routing.log_decay.detach()};
    }
    for (std::size_t j = 0; j < 3; ++j) {
      CHECK((gradients[0][j] - gradients[1][j]).abs().max().item<double>() < 1e-14);
    }
  }
}

TEST_CASE("raven: a selection bias decides which slots are chosen and nothing else") {
  const at::Tensor logits = RandomNormal({2, 3, 2, 5}, 1);
  const at::Tensor bias = at::zeros({2, 5}, at::kDouble);
  bias[1][4] = 2;  // above every difference of two scores
  const auto route = [&](const at::Tensor& with) {
    return RouteSlots({.logits = logits,
                       .decay = at::full({2, 3, 2, 1}, -1, at::kDouble),
                       .selection_bias = with,
                       .top_k = 2},
                      ExecutionPath::kFast);
  };
  const SlotRouting plain = route({}), biased = route(bias);
  CHECK(biased.scores.equal(plain.scores));
  CHECK(biased.log_decay.select(2, 0).equal(plain.log_decay.select(2, 0)));
  CHECK(biased.indices.select(2, 1).select(-1, 0).eq(4).all().item<bool>());
  const at::Tensor chosen = biased.scores.gather(-1, biased.indices);
  CHECK(RelativeError(biased.weights.gather(-1, biased.indices),
                      chosen / chosen.sum(-1, /*keepdim=*/true)) < 1e-8);
}

// Descent takes the bias from slots that are written more often than others.
TEST_CASE("raven: the load loss is zero, and its gradient how often slots are written") {
  const TestRaven raven(
      {{"num_kv_heads", 2}, {"num_slots", 5}, {"top_k", 2}, {"selection_bias", true}});
  at::Tensor bias;
  for (const Parameter& p : raven.parameters.parameters()) {
    if (p.name == "selection_bias") bias = p.tensor;
  }
  TapRecorder recorder;
  const auto result =
      Forward(*raven.mixer, {RandomNormal({2, 9, 16}, 1)}, {.taps = TapScope(recorder)});
  CHECK(result.losses.at("load").item<double>() == 0);
  CHECK(raven.mixer->traits().losses == std::map<std::string, double>{{"load", 1e-3}});
  result.losses.at("load").backward();
  const at::Tensor load =
      recorder.records.at("router").ne(0).to(at::kDouble).mean(at::IntArrayRef({0, 1}));
  CHECK((bias.grad() - (load - 2.0 / 5)).abs().max().item<double>() < 1e-12);
}

// Grouped queries are those of a mixer whose key heads are equal in each group.
TEST_CASE("raven: heads of a group share keys, values, slots and gates") {
  const at::NoGradGuard no_grad;
  const Object options = {{"num_slots", 5}, {"top_k", 2}, {"output_gate", "none"}};
  Object grouped_options = options;
  grouped_options["num_kv_heads"] = 2;
  const TestRaven grouped(grouped_options), full(options);
  const std::int64_t heads = 4, group = 2, width = 4, slots = 5;
  const auto parameter = [](const TestRaven& raven, const std::string& name) {
    for (const Parameter& p : raven.parameters.parameters()) {
      if (p.name == name) return p.tensor;
    }
    FAIL("no parameter " << name);
    return at::Tensor();
  };
  for (const char* name : {"A_log", "dt_bias"}) {
    parameter(full, name).copy_(parameter(grouped, name).repeat_interleave(group, 0));
  }
  for (const char* name : {"q_norm.weight", "k_norm.weight", "o_norm.weight", "o_proj.weight"}) {
    parameter(full, name).copy_(parameter(grouped, name));
  }
  const std::vector<at::Tensor> blocks =
      parameter(grouped, "in_proj.weight")
          .split_with_sizes({16, 2 * width, 2 * width, 2 * slots, 2});
  std::vector<at::Tensor> repeated = {blocks[0]};
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    const at::Tensor by_head = blocks[i].unflatten(0, {heads / group, -1});
    repeated.push_back(by_head.repeat_interleave(group, 0).flatten(0, 1));
  }
  parameter(full, "in_proj.weight").copy_(at::cat(repeated));
  const at::Tensor x = RandomNormal({2, 9, 16}, 1);
  for (const ExecutionPath path : kPaths) {
    const auto of = [&](const TestRaven& raven) {
      return Forward(*raven.mixer, {x}, {.path = path, .want_final_state = true});
    };
    const MixerResult a = of(grouped), b = of(full);
    CHECK(RelativeError(a.y, b.y) < 1e-12);
    for (const char* name : {"keys", "values"}) {
      CAPTURE(name);
      const at::Tensor own = Find(&a.final_state, name), repeats = Find(&b.final_state, name);
      CHECK(RelativeError(own.repeat_interleave(group, 1), repeats) < 1e-12);
    }
  }
  CHECK(SizeOf(grouped.mixer->InitialState(1)).recurrent == (heads / group) * slots * 2 * width);
}

TEST_CASE("raven: a forget gate of each slot decays slots differently") {
  const at::NoGradGuard no_grad;
  const TestRaven raven({{"forget_gate", "slot"}, {"num_slots", 6}, {"top_k", 3}});
  for (const Parameter& p : raven.parameters.parameters()) {
    CHECK(p.name != "A_log");
  }
  TapRecorder recorder;
  Forward(*raven.mixer, {RandomNormal({1, 7, 16}, 1)}, {.taps = TapScope(recorder)});
  CHECK(recorder.records.at("write_gate").sizes() == at::IntArrayRef({1, 7, 4}));
  const at::Tensor rate = recorder.records.at("log_decay") / recorder.records.at("router");
  const at::Tensor chosen = rate.gather(-1, recorder.records.at("router_indices").to(at::kLong));
  CHECK((chosen.select(-1, 0) - chosen.select(-1, 1)).abs().min().item<double>() > 0);
  CHECK(chosen.le(0).all().item<bool>());
}

TEST_CASE("raven: weights add up to 1/alpha and are exactly zero elsewhere; ties go to the first") {
  const at::NoGradGuard no_grad;
  const SlotRouting equal = RouteSlots({.logits = at::zeros({1, 1, 1, 64}, at::kDouble),
                                        .decay = at::full({1, 1, 1, 1}, -1, at::kDouble),
                                        .top_k = 32,
                                        .alpha = 2},
                                       ExecutionPath::kFast);
  const at::Tensor weights = equal.weights.flatten();
  CHECK(weights.narrow(0, 32, 32).eq(0).all().item<bool>());
  CHECK(RelativeError(weights.narrow(0, 0, 32), at::full({32}, 1.0 / 64)) < 1e-8);
  CHECK(RelativeError(equal.log_decay, -equal.weights) == 0);

  const TestRaven raven({{"top_k", 3}, {"num_slots", 9}, {"alpha", 4}});
  TapRecorder recorder;
  Forward(*raven.mixer, {RandomNormal({2, 9, 16}, 1)}, {.taps = TapScope(recorder)});
  const at::Tensor& router = recorder.records.at("router");
  CHECK(router.ne(0).sum(-1).eq(3).all().item<bool>());
  CHECK(router.sum(-1).sub(0.25).abs().max().item<double>() < 1e-6);
  CHECK(recorder.records.at("log_decay").ne(0).equal(router.ne(0)));
  CHECK(RelativeError(recorder.records.at("log_decay"),
                      -recorder.records.at("write_gate").unsqueeze(-1) * router) < 1e-6);
  const at::Tensor& lengths = recorder.records.at("effective_length");
  CHECK(lengths.sizes() == at::IntArrayRef({2, 4, 9}));
  CHECK(lengths.diff().le(0).all().item<bool>());
  CHECK(RelativeError(lengths.sum(-1), at::full({2, 4}, 3.0)) < 1e-6);
  CHECK(recorder.records.at("slot_probs").sizes() == at::IntArrayRef({2, 9, 4, 9}));
  CHECK(recorder.records.at("state").sizes() == at::IntArrayRef({2, 4, 9, 8}));
}

TEST_CASE("raven: an override replaces the decay's strength, and with it decay and write") {
  const at::NoGradGuard no_grad;
  const TestRaven raven({});
  TapRecorder recorder;
  recorder.override_write_gate = at::arange(7).view({1, 7}).ge(4);
  Forward(*raven.mixer, {RandomNormal({1, 7, 16}, 1)}, {.taps = TapScope(recorder)});
  const at::Tensor& gate = recorder.records.at("write_gate");
  CHECK(gate.select(1, 4).equal(gate.select(1, 6)));
  const at::Tensor total = recorder.records.at("log_decay").sum(-1);
  CHECK(RelativeError(total, -gate) < 1e-6);
}

TEST_CASE("raven: impossible options are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"top_k", 65}}, 16, parameters), "/mixer/top_k: 65 is not in 1..64");
  CHECK_THROWS_WITH(Make({{"alpha", 0}}, 16, parameters),
                    Catch::Matchers::StartsWith("/mixer/alpha: "));
  CHECK_THROWS_WITH(Make({{"num_kv_heads", 3}}, 16, parameters),
                    Catch::Matchers::StartsWith("/mixer/num_kv_heads: "));
  CHECK_THROWS_WITH(Make({{"router_score", "relu"}}, 16, parameters),
                    Catch::Matchers::StartsWith("/mixer/router_score: "));
}

}  // namespace
}  // namespace mixerbench::models::raven
