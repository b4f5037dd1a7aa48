// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/selectlti/selectlti.h"

#include <memory>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::selectlti {

void Register(MixerRegistry& registry);

namespace {

constexpr std::int64_t kModelDim = 64;

// y = 2 x, without parameters.
class Doubling final : public Mixer {
 public:
  State InitialState(std::int64_t) const override { return {}; }
  Mixed Mix(const MixerInputs& inputs, const MixerOptions&) const override {
    return {.tokens = {{inputs.x * 2}}};
  }
  at::Tensor Output(const Mixed& mixed, const MixerOptions&) const override {
    return mixed.tokens[0].value;
  }
};

void RegisterWithCore(MixerRegistry& registry) {
  Register(registry);
  MixerEntry doubling;
  doubling.create = [](const auto&...) -> std::unique_ptr<Mixer> {
    return std::make_unique<Doubling>();
  };
  registry.Add("doubling", std::move(doubling));
}

struct Model : testing::MadeMixer {
  explicit Model(Object config)
      : MadeMixer(RegisterWithCore, Complete(std::move(config)), {.d_model = kModelDim}) {}

  static Object Complete(Object config) {
    config["name"] = "selectlti";
    config["core"] = Object{{"name", "doubling"}};
    return config;
  }

  at::Tensor Modulated(const std::string& where, const at::Tensor& x) const {
    const at::Tensor hidden = at::sigmoid(at::matmul(x, (*this)[where + ".fc1.weight"].t()) +
                                          (*this)[where + ".fc1.bias"]);
    return x *
           (at::matmul(hidden, (*this)[where + ".fc2.weight"].t()) + (*this)[where + ".fc2.bias"]);
  }
};

TEST_CASE(
    "selectlti: the equations, whichever gains there are and wherever the activation stands") {
  const at::NoGradGuard no_grad;
  const at::Tensor u = testing::RandomNormal({2, 5, kModelDim}, 1);
  for (const bool in : {false, true}) {
    for (const bool out : {false, true}) {
      for (const bool first : {false, true}) {
        for (const bool silu : {false, true}) {
          const Model model({{"in", in},
                             {"out", out},
                             {"activation_first", first},
                             {"activation", silu ? "silu" : "none"},
                             {"unit_bias", true}});
          const auto act = [&](const at::Tensor& x) { return silu ? at::silu(x) : x; };
          at::Tensor y = (in ? model.Modulated("in", u) : u) * 2;
          if (first) y = act(y);
          if (out) y = model.Modulated("out", y);
          if (!first) y = act(y);
          CHECK(testing::RelativeError(Forward(*model.mixer, {u}).y, y) < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("selectlti: a pair of gains has 2 (2 R d + R + d) parameters") {
  CHECK(Model({{"out", false}}).parameters.num_elements() == 1096);
  CHECK(Model({}).parameters.num_elements() == 2 * 1096);
  CHECK(Model({{"bottleneck", 3}}).parameters.num_elements() ==
        2 * (6 * kModelDim + 3 + kModelDim));
}

TEST_CASE("selectlti: with a unit bias the gains start near one, whatever the policy") {
  CHECK((Model({{"unit_bias", true}})["in.fc2.bias"] == 1).all().item<bool>());
  CHECK((Model({})["in.fc2.bias"] == 0).all().item<bool>());  // zoology's biases are zeros
}

TEST_CASE("selectlti: errors name the place") {
  CHECK_THROWS_WITH(Model({{"bottleneck", 0}}), Catch::Matchers::StartsWith("/mixer/bottleneck: "));
}

}  // namespace
}  // namespace mixerbench::models::selectlti
