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
