// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/s4d/s4d.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/softplus.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::s4d {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

struct Model : testing::MadeMixer {
  Model(Object config, std::int64_t d_model)
      : MadeMixer(Register, std::move(config), {.d_model = d_model, .max_seq_len = 64}) {}
};

// Values of a loop over tokens in Python, written from the equations of s4d.md.
TEST_CASE("s4d: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"d_state", 4}}, {.d_model = 3, .max_seq_len = 4});
  testing::FillParameters(made.parameters, {"inv_dt", "A_real", "A_imag", "C", "D",
                                            "output_linear.weight", "output_linear.bias"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 4, 3}, 30)},
      {0.19740196674061872, 0.0018621785022927555, -0.09104617233894415, 0.20880684028069454,
       0.010997682404626846, -0.10862217983367901, 0.1880127864019636, 0.0444046870924959,
       -0.12498817169911233, 0.19538906397400874, 0.012325316765106242, -0.10054529202762026},
      {0.24824541992707277, -0.008156421605819673, 0.2830439021111968, -0.04597597728962941,
       0.1965911367081786, -0.08499126080684027, 0.248437741413647, -0.07765502892403003,
       -0.00793278152893176, -0.007904256861105406, -0.018358262736775183, 0.024056870148189434});
}

TEST_CASE("s4d: parameter counts of SelectLTI's table") {
  CHECK(Model({{"form", "full"}, {"d_state", 16}, {"n_ssm", 1}}, 64).parameters.num_elements() ==
        9504);
  // 2064 + 2 (...) = 21 008 of a model of two layers.
  CHECK(Model({{"d_state", 8}}, 64).parameters.num_elements() == 9472);
}

TEST_CASE("s4d: the state has N real numbers a channel") {
  const Model model({{"d_state", 10}}, 6);
  const State state = model.mixer->InitialState(1);
  const at::Tensor x = Find(&state, "state");
  CHECK(x.is_complex());
  CHECK(x.numel() == 6 * 5);
}

TEST_CASE("s4d: whatever the policy, the state starts as S4D asks") {
  for (const std::string transform : {"exp", "softplus"}) {
    const Model model({{"dt_transform", transform}, {"dt_min", 0.002}, {"dt_max", 0.05}}, 512);
    const at::Tensor stored = model["inv_dt"];
    const at::Tensor step = transform == "exp" ? stored.exp() : at::softplus(stored);
    CHECK(step.min().item<double>() >= 0.002 * (1 - 1e-12));
    CHECK(step.max().item<double>() <= 0.05 * (1 + 1e-12));
    const double middle = step.log().mean().item<double>();
    CHECK(std::abs(middle - std::log(0.01)) < 0.15);
    CHECK(std::abs(model["C"].var().item<double>() - 0.5) < 0.02);
    CHECK(std::abs(model["D"].var().item<double>() - 1) < 0.2);
    CHECK(RelativeError(model["A_real"].exp(), at::full({512, 32}, 0.5, at::kDouble)) < 1e-12);
  }
}

TEST_CASE("s4d: steps are stored as the inverse of what makes them") {
  for (const auto& [step, stored] : {std::pair(1e-3, -6.9072552373), std::pair(1e-2, -4.6001660193),
                                     std::pair(1e-1, -2.2521684610)}) {
    const Model model({{"dt_transform", "softplus"}, {"dt_min", step}, {"dt_max", step}}, 2);
    CHECK(std::abs(model["inv_dt"][0].item<double>() - stored) < 5e-10);
  }
}

TEST_CASE("s4d: parameters of the state have a rate of learning of their own and no decay") {
  const Model model({{"form", "full"}, {"n_ssm", 2}}, 8);
  std::map<std::string, bool> decayed;
  for (const Parameter& parameter : model.parameters.parameters()) {
    decayed[parameter.name] = parameter.weight_decay;
    CHECK(parameter.lr_group == (parameter.weight_decay ? "" : "ssm"));
  }
  for (const std::string name : {"inv_dt", "A_real", "A_imag", "B"}) CHECK(!decayed.at(name));
  for (const std::string name : {"C", "D", "output_linear.weight"}) CHECK(decayed.at(name));
}

TEST_CASE("s4d: in training dropout acts, for all tokens of a sequence at once or not") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({2, 5, 8}, 1);
  for (const bool tied : {true, false}) {
    const Model model({{"dropout", 0.5}, {"tie_dropout", tied}}, 8);
    const auto mixed = model.mixer->Mix({x}, {.generator = at::detail::createCPUGenerator(3)});
    const at::Tensor kept = mixed.tokens[0].value != 0;
    CHECK(kept.equal(kept.narrow(1, 0, 1).expand(kept.sizes())) == tied);
    CHECK(mixed.tokens.size() == 2);
    CHECK(Forward(*model.mixer, {x}).y.isfinite().all().item<bool>());
  }
}

TEST_CASE("s4d: impossible options are named") {
  const auto message = [](Object config) {
    return Catch::Matchers::StartsWith("/mixer/" + std::string(config.begin()->first) + ": ");
  };
  for (const Object& config :
       {Object{{"d_state", 7}}, Object{{"init", "inv"}}, Object{{"n_ssm", 2}},
        Object{{"dt_min", 0}}, Object{{"dt_max", 1e-4}}, Object{{"dropout", 1}}}) {
    CHECK_THROWS_WITH(Model(config, 8), message(config));
  }
  CHECK_THROWS_WITH(Model({{"form", "full"}, {"n_ssm", 3}}, 8),
                    Catch::Matchers::StartsWith("/mixer/n_ssm: "));
  CHECK_THROWS_WITH(Model({{"form", "full"}, {"init", "diag"}, {"n_ssm", 1}}, 8),
                    Catch::Matchers::StartsWith("/mixer/init: "));
}

}  // namespace
}  // namespace mixerbench::models::s4d
