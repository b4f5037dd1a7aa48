// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mom/mom.h"

#include <cmath>
#include <map>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::mom {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

std::unique_ptr<Mixer> Make(Object config, std::int64_t d_model, ParameterSet& parameters,
                            const std::set<std::string>& offered = {}, std::int64_t layer = 0) {
  MixerRegistry registry("mixer");
  Register(registry);
  config["name"] = "mom";
  return CreateMixer(config, "/mixer",
                     {.d_model = d_model, .registry = &registry, .offered = offered},
                     ParameterScope(parameters).Child("layers." + std::to_string(layer)));
}

// Bounds 2^-2.5 sqrt(6 / (in + out)), of the projection of each memory by itself.
TEST_CASE("mom: by Xavier every projection starts as a layer of its own") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kWidth = 64;
  for (const char* memory : {"gated_delta_net", "gla"}) {
    CAPTURE(memory);
    ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
    Make({{"memory", memory}, {"init", "xavier"}, {"num_memories", 3}, {"gate_low_rank_dim", 8}},
         kWidth, parameters);
    std::map<std::string, at::Tensor> by_name;
    for (const Parameter& p : parameters.parameters()) by_name[p.name] = p.tensor;
    const auto check = [&](const at::Tensor& x, std::int64_t out, double share) {
      const double bound = std::exp2(-2.5) * std::sqrt(6.0 / static_cast<double>(kWidth + out));
      CAPTURE(out);
      CHECK(x.abs().max().item<double>() <= bound);
      CHECK(x.abs().max().item<double>() > share * bound);
    };
    const bool is_gla = std::string(memory) == "gla";
    const std::int64_t gates = is_gla ? 8 : 2;  // of a memory; four with the shared one
    const std::int64_t gate_columns = is_gla ? 4 * gates : 2 * 4 * gates;
    const auto rows = by_name.at("layers.0.in_proj.weight")
                          .split_with_sizes({9 * kWidth, gate_columns, 3, kWidth});
    check(rows[0], kWidth, 0.99);  // q, k and v of four memories
    check(rows[1], gates, 0.97);
    check(rows[2], 3, 0.9);
    check(rows[3], kWidth, 0.99);
    check(by_name.at("layers.0.o_proj.weight"), kWidth, 0.99);
    if (!is_gla) continue;
    check(by_name.at("layers.0.shared.decay_proj.weight"), 8, 0.97);
    CHECK(by_name.at("layers.0.shared.decay_proj.bias").abs().max().item<double>() == 0);
  }
}

// Against an implementation of its own, token by token in float64.
TEST_CASE("mom: values and balance loss of a worked example") {
  const at::NoGradGuard no_grad;
  for (const char* form : {"varlen", "masking", "loop"}) {
    CAPTURE(form);
    ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
    const auto mixer =
        Make({{"num_memories", 3}, {"conv_size", 2}, {"implementation", form}}, 4, parameters);
    std::map<std::string, at::Tensor> by_name;
    for (const Parameter& p : parameters.parameters()) by_name[p.name] = p.tensor;
    double phase = 0;  // element i of the j-th parameter by name becomes 0.8 sin(1.3 i + 0.7 j)
    for (auto& [name, tensor] : by_name) {
      const at::Tensor i = at::arange(tensor.numel(), at::kDouble);
      tensor.copy_(at::sin(i * 1.3 + phase).mul(0.8).view(tensor.sizes()));
      phase += 0.7;
    }
    const at::Tensor x = at::cos(at::arange(20, at::kDouble) * 0.9).view({1, 5, 4});
    const auto result = Forward(*mixer, {x});
    CHECK(RelativeError(result.y[0][4], at::tensor({0.163523911342, -0.103498625101,
                                                    -0.260505573975, -0.140603783646})) < 1e-10);
    CHECK(std::abs(result.y.sum().item<double>() + 0.263276468208) < 1e-10);
    CHECK(std::abs(result.losses.at("balance").item<double>() - 1.999067645341) < 1e-6);
  }
}

TEST_CASE("mom: the losses of the layers add up to the one of all layers' tokens") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const Object config = {{"num_memories", 3}, {"top_k", 2}};
  const auto first = Make(config, 16, parameters);
  const std::set<std::string> offers = first->traits().offers;
  REQUIRE(offers.size() == 1);
  CHECK(first->traits().reads.empty());
  const auto second = Make(config, 16, parameters, offers, 1);
  CHECK(second->traits().reads == offers);
  const at::Tensor x = RandomNormal({2, 7, 16}, 1), other = RandomNormal({2, 7, 16}, 2);
  const auto a = Forward(*first, {x});
  const auto b = Forward(*second, {.x = other, .values = a.offers});

  // choices [2,3] and scores [3] of every token.
  const at::Tensor own = b.offers.at(*offers.begin()) - a.offers.at(*offers.begin());
  const at::Tensor all = at::cat({a.offers.at(*offers.begin()), own}, 1).flatten(0, 1).mean(0);
  const at::Tensor f = all.narrow(0, 0, 6).view({2, 3}), p = all.narrow(0, 6, 3);
  CHECK(RelativeError(f.sum(1), at::tensor({1.0, 1.0}, at::kDouble)) < 1e-12);
  const at::Tensor pooled = (f * p).sum() * 3;
  const at::Tensor sum = a.losses.at("balance") + b.losses.at("balance");
  CHECK(RelativeError(sum, pooled) < 1e-6);
  sum.backward();
  for (const Parameter& parameter : parameters.parameters()) {
    if (parameter.name.ends_with("in_proj.weight")) CHECK(parameter.tensor.grad().defined());
  }
}

TEST_CASE("mom: layers of other sizes share no sums") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto first = Make({{"num_memories", 3}}, 16, parameters);
  const auto second = Make({{"num_memories", 5}}, 16, parameters, first->traits().offers, 1);
  CHECK(second->traits().reads.empty());
}

// What follows a token in another memory's stream must not be its neighbour in the convolution.
TEST_CASE("mom: the convolution sees the sequence, not a memory's tokens") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"top_k", 1}}, 16, parameters);
  const at::Tensor x = RandomNormal({1, 12, 16}, 1);
  const at::Tensor whole = Forward(*mixer, {x}).y;
  for (const std::int64_t length : {1, 5, 11}) {
    const at::Tensor prefix = Forward(*mixer, {x.narrow(1, 0, length)}).y;
    CHECK(RelativeError(prefix, whole.narrow(1, 0, length)) < 1e-12);
  }
}

TEST_CASE("mom: state and parameters count as the page says") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"num_memories", 3}}, 32, parameters);
  const std::int64_t d = 32, heads = 2, keys = 16, values = 16, memories = 3;
  const std::int64_t channels = d + (memories + 1) * 2 * d;
  const StateSize size = SizeOf(mixer->InitialState(1));
  CHECK(size.recurrent == (memories + 1) * heads * keys * values);
  CHECK(size.conv == 4 * channels);
  CHECK(parameters.num_elements() == d * d + (memories + 1) * d * 2 * d + 2 * d * d + d * memories +
                                         2 * (memories + 1) * d * heads + 4 * 3 * d + 2 * heads +
                                         values);
}

TEST_CASE("mom: weights of the chosen memories sum to one and the write gate is their mean") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"top_k", 2}}, 16, parameters);
  TapRecorder recorder;
  Forward(*mixer, {RandomNormal({2, 9, 16}, 1)}, {.taps = TapScope(recorder)});
  const at::Tensor& router = recorder.records.at("router");
  CHECK(router.ne(0).sum(-1).eq(2).all().item<bool>());
  CHECK(router.sum(-1).sub(1).abs().max().item<double>() < 1e-6);
  CHECK(recorder.records.at("write_gate").sizes() == at::IntArrayRef({2, 9, 2}));
  CHECK(recorder.records.at("log_decay").sizes() == at::IntArrayRef({2, 9, 2, 5}));
  CHECK(recorder.records.at("state").sizes() == at::IntArrayRef({2, 2, 5 * 8, 8}));
}

TEST_CASE("mom: memories of gla write |k| |v|, and an override acts on keys from its token on") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"memory", "gla"}, {"top_k", 1}, {"num_memories", 3}}, 16, parameters);
  const at::Tensor x = RandomNormal({1, 7, 16}, 1);
  const auto run = [&](std::int64_t overridden_from, TapRecorder& recorder) {
    recorder.override_write_gate = at::arange(7).view({1, 7}).ge(overridden_from);
    return Forward(*mixer, {x}, {.taps = TapScope(recorder)}).y;
  };
  TapRecorder plain, changed;
  const at::Tensor before = run(7, plain), after = run(4, changed);
  CHECK(RelativeError(after.narrow(1, 0, 4), before.narrow(1, 0, 4)) < 1e-12);
  CHECK(RelativeError(after.narrow(1, 4, 3), before.narrow(1, 4, 3)) > 1e-4);
  for (const char* name : {"write_gate", "shared.write_gate"}) {
    CAPTURE(name);
    CHECK(plain.records.at(name).sizes() == at::IntArrayRef({1, 7, 2}));
    CHECK(plain.records.at(name).gt(0).all().item<bool>());
    CHECK(changed.records.at(name).narrow(1, 0, 4).equal(plain.records.at(name).narrow(1, 0, 4)));
    CHECK_FALSE(changed.records.at(name).equal(plain.records.at(name)));
  }
  const at::Tensor log_decay = plain.records.at("log_decay").view({1, 7, 2, 4, 8});
  const at::Tensor router = plain.records.at("router");
  for (std::int64_t e = 0; e < 3; ++e) {
    CHECK(log_decay.select(3, e).eq(0).flatten(2).all(-1).equal(router.select(2, e).eq(0)));
  }
  CHECK(plain.records.at("state").sizes() == at::IntArrayRef({1, 2, 4 * 8, 8}));
}

TEST_CASE("mom: memories of gla have the parameters of the page and no write strength") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  Make({{"memory", "gla"}, {"num_memories", 3}, {"gate_low_rank_dim", 5}}, 32, parameters);
  const std::int64_t d = 32, sets = 4, rank = 5;
  CHECK(parameters.num_elements() == d * d + sets * d * 2 * d + 2 * d * d + d * 3 +
                                         sets * (d * rank + rank * d + d) + 4 * 3 * d + 16);
  CHECK_THROWS_WITH(Make({{"memory", "gla"}, {"allow_neg_eigval", true}}, 16, parameters),
                    "/mixer/allow_neg_eigval: needs the memory 'gated_delta_net'");
}

}  // namespace
}  // namespace mixerbench::models::mom
