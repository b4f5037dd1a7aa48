// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/s5/s5.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_real.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::s5 {

void Register(MixerRegistry& registry);

namespace {

struct Model : testing::MadeMixer {
  Model(Object config, std::int64_t d_model)
      : MadeMixer(Register, std::move(config), {.d_model = d_model, .max_seq_len = 64}) {}

  void Set(const std::string& name, const std::vector<double>& values) const {
    const at::Tensor parameter = (*this)[name];
    parameter.copy_(at::tensor(values, at::kDouble).view(parameter.sizes()));
  }
};

// Values of a loop over tokens in Python, written from the equations of s5.md.
TEST_CASE("s5: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"d_state", 4}, {"blocks", 1}},
                                {.d_model = 3, .max_seq_len = 4});
  testing::FillParameters(made.parameters, {"Lambda_re", "Lambda_im", "B", "C", "D", "log_step",
                                            "out2.weight", "out2.bias"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 4, 3}, 30)},
      {-0.07305865688940301, 0.27726906133777357, -0.07084880805453457, -0.026797639954047586,
       0.31086042724269547, -0.07386472620910366, -0.026977886573471114, -0.02541900514314875,
       1.5222386775505252, -0.014014155500872512, -0.000209658254636764, 7.0328846779481005},
      {0.43385028020903293, 1.2489846726074303, -5.148618459597325, 8.402262375165524});
}

TEST_CASE("s5: four tokens of a system of two modes") {
  const at::NoGradGuard no_grad;
  const Model model({{"d_state", 4}, {"blocks", 1}, {"activation", "none"}}, 2);
  model.Set("Lambda_re", {-0.5, -0.5});
  model.Set("Lambda_im", {-1, -3});
  model.Set("log_step", {std::log(0.1), std::log(0.2)});
  model.Set("B", {1, 0, 0, 0.5, -0.5, 0, 1, 1});
  model.Set("C", {1, 0, 0, 1, 0.5, 0, -1, 0});
  model.Set("D", {1, 0.5});
  const at::Tensor k = at::arange(4, at::kDouble);
  const at::Tensor u = at::stack({k.cos(), (k + 2).cos()}, -1).unsqueeze(0);
  const at::Tensor expected = at::tensor({1.2421859795, 0.2623551081, 0.8820450467, 0.5086829595,
                                          -0.4613131956, 0.6640535999, -1.6872809878, 0.3740671255},
                                         at::kDouble)
                                  .view({1, 4, 2});
  const at::Tensor expected_state =
      at::tensor({-0.0301363422, -0.1048637148, -0.1311861875, 0.3185079034}, at::kDouble);
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const MixerResult result = Forward(*model.mixer, {u}, {.path = path, .want_final_state = true});
    CHECK((result.y - expected).abs().max().item<double>() < 5e-10);
    const at::Tensor state = at::view_as_real(Find(&result.final_state, "state")).flatten();
    CHECK((state - expected_state).abs().max().item<double>() < 5e-10);
  }
}

TEST_CASE("s5: counts") {
  const Model model({{"d_state", 32}, {"blocks", 1}, {"activation", "silu"}}, 64);
  CHECK(model.parameters.num_elements() == 4208);
  const State state = model.mixer->InitialState(1);
  CHECK(Find(&state, "state").numel() == 16);
  CHECK(Model({{"d_state", 8}, {"blocks", 1}, {"activation", "full_glu"}}, 6)
            .parameters.num_elements() == 4 * (4 * 6 + 3) + 6 + 2 * (36 + 6));
}

TEST_CASE("s5: the state starts as HiPPO asks, whatever the policy") {
  const Model model({{"d_state", 64}, {"blocks", 4}}, 96);
  CHECK(testing::RelativeError(model["Lambda_re"], model["Lambda_re"] * 0 - 0.5) < 1e-12);
  const at::Tensor frequencies = model["Lambda_im"].view({4, 8});
  CHECK(std::abs(frequencies[3][0].item<double>() + 80.9661) < 5e-5);
  CHECK(std::abs(frequencies[0][7].item<double>() + 0.3520) < 5e-5);
  // V is half of a unitary matrix: V^H B has half of the energy of B, so a quarter a part.
  CHECK(std::abs(model["B"].var().item<double>() * 64 - 0.5) < 0.05);
  CHECK(std::abs(model["C"].var().item<double>() * 64 - 1) < 0.1);
  const Model small({{"d_state", 64}, {"c_init", "lecun_normal"}}, 96);
  CHECK(std::abs(small["C"].var().item<double>() * 64 * 96 - 1) < 0.1);
  const Model direct({{"d_state", 64}, {"c_init", "complex_normal"}}, 96);
  CHECK(std::abs(direct["C"].var().item<double>() - 0.5) < 0.05);
  CHECK(model["log_step"].min().item<double>() >= std::log(1e-3));
  CHECK(model["log_step"].max().item<double>() <= std::log(1e-1));
}

// Of a real system: with all modes the conjugate halves do what the factor 2 does.
TEST_CASE("s5: all modes of a real system give what half of them give") {
  const at::NoGradGuard no_grad;
  const Object options = {{"d_state", 8}, {"blocks", 2}, {"activation", "none"}};
  const Model half(options, 4);
  Object all_options = options;
  all_options["conj_sym"] = false;
  const Model all(all_options, 4);
  for (const std::string name : {"D"}) all[name].copy_(half[name]);
  for (const std::string name : {"Lambda_re", "Lambda_im", "log_step"}) {
    const double sign = name == "Lambda_im" ? -1 : 1;
    all[name].narrow(0, 0, 4).copy_(half[name]);
    all[name].narrow(0, 4, 4).copy_(half[name] * sign);
  }
  const at::Tensor conjugate = at::tensor({1., -1.}, at::kDouble);
  for (const auto& [name, axis] : {std::pair("B", 0), std::pair("C", 1)}) {
    all[name].narrow(axis, 0, 4).copy_(half[name]);
    all[name].narrow(axis, 4, 4).copy_(half[name] * conjugate);
  }
  const at::Tensor x = testing::RandomNormal({2, 9, 4}, 1);
  CHECK(testing::RelativeError(Forward(*all.mixer, {x}).y, Forward(*half.mixer, {x}).y) < 1e-12);
}

TEST_CASE("s5: clipped rates decay") {
  const at::NoGradGuard no_grad;
  const Model model({{"d_state", 8}, {"blocks", 1}, {"clip_eigs", true}, {"activation", "none"}},
                    4);
  model["Lambda_re"].fill_(3);
  const at::Tensor y = Forward(*model.mixer, {testing::RandomNormal({1, 4000, 4}, 1)}).y;
  CHECK(y.abs().max().item<double>() < 1e3);
}

TEST_CASE("s5: impossible options are named") {
  CHECK_THROWS_WITH(Model({{"d_state", 24}, {"blocks", 8}}, 8),
                    Catch::Matchers::StartsWith("/mixer/blocks: "));
  CHECK_THROWS_WITH(Model({{"d_state", 24}, {"blocks", 5}}, 8),
                    Catch::Matchers::StartsWith("/mixer/blocks: "));
  CHECK_THROWS_WITH(Model({{"step_rescale", 0}}, 8),
                    Catch::Matchers::StartsWith("/mixer/step_rescale: "));
}

}  // namespace
}  // namespace mixerbench::models::s5
