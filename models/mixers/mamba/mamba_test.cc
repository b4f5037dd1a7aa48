// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/mamba/mamba.h"

#include <cmath>
#include <memory>
#include <string_view>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/softplus.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::mamba {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;

struct Model {
  std::unique_ptr<ParameterSet> parameters;
  std::unique_ptr<Mixer> mixer;

  at::Tensor Find(std::string_view name) const {
    for (const Parameter& parameter : parameters->parameters()) {
      if (parameter.name == name) return parameter.tensor.detach();
    }
    FAIL("no parameter " << name);
    return {};
  }
};

Model Make(Object config, std::int64_t d_model, InitPolicy policy = InitPolicy::kDefault,
           at::ScalarType dtype = at::kFloat) {
  MixerRegistry registry("mixer");
  Register(registry);
  config["name"] = "mamba";
  Model model{std::make_unique<ParameterSet>(1, policy, 2, at::kCPU, dtype), nullptr};
  model.mixer = CreateMixer(config, "/mixer", {.d_model = d_model, .registry = &registry},
                            ParameterScope(*model.parameters));
  return model;
}

// What its own initialisation gives, whatever the policy.
void CheckInitialisation(const Model& model) {
  const at::Tensor steps = at::softplus(model.Find("dt_proj.bias"));
  CHECK(steps.min().item<double>() > 0.99e-3);
  CHECK(steps.max().item<double>() < 0.101);
  CHECK(steps.log().mean().item<double>() == Approx(std::log(1e-2)).margin(0.5));
  const at::Tensor A = model.Find("A_log").exp();
  for (std::int64_t n = 0; n < A.size(1); ++n) {
    CHECK((A.select(1, n) - static_cast<double>(n + 1)).abs().max().item<double>() < 1e-5);
  }
  CHECK((model.Find("D") == 1).all().item<bool>());
}

TEST_CASE("mamba: parameters of the published blocks") {
  CHECK(Make({}, 64).parameters->num_elements() == 32640);
  CHECK(Make({}, 128).parameters->num_elements() == 116480);
  CHECK(Make({{"d_state", 4}}, 128).parameters->num_elements() == 107264);
}

TEST_CASE("mamba: the state is D (N + K) numbers") {
  const StateSize size = SizeOf(Make({}, 64).mixer->InitialState(1));
  CHECK(size.recurrent == 128 * 16);
  CHECK(size.conv == 128 * 4);
}

TEST_CASE("mamba: steps, decays and skip start as published under every policy") {
  for (const auto policy : {InitPolicy::kDefault, InitPolicy::kZoology, InitPolicy::kMad}) {
    CheckInitialisation(Make({}, 64, policy));
  }
}

TEST_CASE("mamba: a closed gate lets nothing through") {
  const at::NoGradGuard no_grad;
  const Model model = Make({}, 8);
  model.Find("in_proj.weight").narrow(0, 16, 16).zero_();  // silu(0) = 0
  const at::Tensor y = Forward(*model.mixer, {RandomNormal({1, 5, 8}, 1, at::kFloat)}).y;
  CHECK(y.abs().max().item<double>() == 0);
}

TEST_CASE("mamba: whoever holds it may project") {
  MixerRegistry registry("mixer");
  Register(registry);
  ParameterSet parameters(1, InitPolicy::kDefault, 2, at::kCPU, at::kFloat);
  const auto mixer = CreateMixer(Object{{"name", "mamba"}}, "/mixer",
                                 {.d_model = 8, .registry = &registry, .output_projection = false},
                                 ParameterScope(parameters));
  CHECK(mixer->traits().output_dim == 16);
  CHECK(Forward(*mixer, {RandomNormal({1, 5, 8}, 1, at::kFloat)}).y.size(2) == 16);
}

TEST_CASE("mamba: impossible options are named") {
  CHECK_THROWS_WITH(Make({{"expand", 0}}, 16), Catch::StartsWith("/mixer/expand: "));
  CHECK_THROWS_WITH(Make({{"conv_size", 0}}, 16), Catch::StartsWith("/mixer/conv_size: "));
}

}  // namespace
}  // namespace mixerbench::models::mamba
