// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/ttt_linear/ttt_linear.h"

#include <cmath>
#include <memory>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "base/check.h"
#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::ttt_linear {

void Register(MixerRegistry& registry);

namespace {

using testing::RandomNormal;
using testing::RelativeError;

struct Model {
  ParameterSet parameters;
  MixerRegistry registry{"mixer"};
  std::unique_ptr<Mixer> mixer;

  explicit Model(Object config, std::int64_t d_model = 16)
      : parameters(1, InitPolicy::kZoology, 2, at::kCPU, at::kDouble) {
    Register(registry);
    config["name"] = "ttt_linear";
    mixer = CreateMixer(config, "/mixer", {.d_model = d_model, .registry = &registry},
                        ParameterScope(parameters));
  }

  at::Tensor Parameter(const std::string& name) const {
    for (const auto& parameter : parameters.parameters()) {
      if (parameter.name == name) return parameter.tensor;
    }
    Require(false, "no parameter " + name);
    return {};
  }
};

// Values of a loop over tokens in Python, written from the equations of ttt_linear.md.
TEST_CASE("ttt_linear: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"mini_batch_size", 2}}, {.d_model = 8});
  testing::FillParameters(made.parameters, {"in_proj.weight", "weight", "bias", "norm_weight",
                                            "norm_bias", "lr_weight", "lr_bias", "token_scale",
                                            "post_norm.weight", "post_norm.bias", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 4, 8}, 30)},
      {0.8090458801282614,    1.0089356032990644,  0.7559461749375525,  0.16363651524474804,
       -0.5021243795332548,   -0.942497586312997,  -0.9598135575119993, -0.5462997035626881,
       0.4639161823346264,    0.8021499175409321,  0.7803240286544877,  0.4082354640712195,
       -0.14709703599161933,  -0.6364023479614094, -0.8400468561737298, -0.6666210080348968,
       0.4763399512464973,    0.8170704966302388,  0.791044043801176,   0.40994304091168143,
       -0.15516837447351367,  -0.6506296342427991, -0.8540439132591213, -0.6741050015034853,
       0.4328893594667335,    0.9036086886625057,  0.9687267734373273,  0.5990141734921369,
       -0.039576866028287735, -0.660403107231962,  -0.9847953660342201, -0.8671442591903439},
      {{"weight",
        {0.46057718831738376,  0.21140764824760544,  -0.12672380749017892, -0.41383148209067505,
         -0.5280883664588322,  -0.31467128008294915, -0.05016531022820571, 0.2897476703522215,
         0.46267068757963825,  0.4801852813581031,   0.19671515313275226,  -0.13434643976119667,
         -0.4208279410520435,  -0.4866346512978248,  -0.3521419164613895,  -0.0315085108977252,
         0.29284040056341704,  0.49081583522994787,  0.451871253411347,    0.19227889148194563,
         -0.14344025602138163, -0.42538258585085775, -0.48927196128674305, -0.3414143171964914,
         -0.02255323940409514, 0.2951431725527812,   0.4876058449095366,   0.44929535959205735,
         0.19373804985874593,  -0.15791011605236513, -0.4284269525368646,  -0.4871110023837315}},
       {"bias",
        {-0.10799441202906504, -0.3406198337759466, -0.5107329210497794, -0.38427080043084116,
         -0.09047527723101709, 0.25198155900129965, 0.4653512187108344, 0.4684831896793948}}});
}

TEST_CASE("ttt_linear: parameters and state have the sizes of the page") {
  const Model model({}, 64);
  // 4 d^2 + d K + d H, and b, the norm of the loss, rates, places and the last norm.
  CHECK(model.parameters.num_elements() ==
        4 * 64 * 64 + 64 * 32 + 64 * 2 + 64 + 2 * 64 + 2 + 16 + 2 * 64);
  CHECK(SizeOf(model.mixer->InitialState(1)).recurrent == 2 * (32 * 32 + 32));
  const Model with_conv({{"conv_size", 4}}, 64);
  CHECK(SizeOf(with_conv.mixer->InitialState(1)).conv == 2 * 4 * 64);
}

TEST_CASE("ttt_linear: rates start at half of what they may be, and are the write gate") {
  const at::NoGradGuard no_grad;
  const Model model({{"base_lr", 2}});
  TapRecorder recorder;
  Forward(*model.mixer, {RandomNormal({2, 9, 16}, 1)}, {.taps = TapScope(recorder)});
  const at::Tensor gate = recorder.records.at("write_gate");
  CHECK(gate.sizes() == at::IntArrayRef({2, 9, 2}));
  CHECK(std::abs(gate.mean().item<double>() - 0.5 * 2 / 8) < 0.01);
  CHECK(recorder.records.at("state").sizes() == at::IntArrayRef({2, 2, 8, 8}));
  CHECK(recorder.records.at("surprise").sizes() == at::IntArrayRef({2, 9, 2}));
  CHECK(recorder.records.at("inner_loss").min().item<double>() > 0);
}

// What a place of the mini-batch sees is never negative, whatever was learned.
TEST_CASE("ttt_linear: a token whose scale is learned away sees the layer as it started") {
  const at::NoGradGuard no_grad;
  const Model model({{"mini_batch_size", 4}});
  const at::Tensor x = RandomNormal({2, 4, 16}, 1);
  const at::Tensor before = Forward(*model.mixer, {x}).y;
  model.Parameter("token_scale").fill_(-2);
  const at::Tensor frozen = Forward(*model.mixer, {x}).y;
  CHECK(RelativeError(frozen, before) > 1e-6);
  model.Parameter("lr_bias").fill_(-1e4);  // rates of zero
  CHECK(RelativeError(Forward(*model.mixer, {x}).y, frozen) < 1e-12);
}

TEST_CASE("ttt_linear: an unfinished mini-batch is carried as its tokens") {
  const at::NoGradGuard no_grad;
  const Model model({{"mini_batch_size", 4}});
  const auto result =
      Forward(*model.mixer, {RandomNormal({2, 7, 16}, 1)}, {.want_final_state = true});
  CHECK(Find(&result.final_state, "unfinished_k").sizes() == at::IntArrayRef({2, 3, 2, 8}));
  CHECK(Find(&result.final_state, "unfinished_learning_rate").sizes() ==
        at::IntArrayRef({2, 3, 2}));
}

TEST_CASE("ttt_linear: impossible options are errors that name the option") {
  CHECK_THROWS_WITH(Model({{"num_heads", 16}}), Catch::Matchers::StartsWith("/mixer/num_heads: "));
  CHECK_THROWS_WITH(Model({{"mini_batch_size", 0}}),
                    Catch::Matchers::StartsWith("/mixer/mini_batch_size: "));
  CHECK_THROWS_WITH(Model({{"base_lr", 0}}), Catch::Matchers::StartsWith("/mixer/base_lr: "));
}

}  // namespace
}  // namespace mixerbench::models::ttt_linear
