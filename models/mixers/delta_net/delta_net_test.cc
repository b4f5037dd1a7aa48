// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/delta_net/delta_net.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::delta_net {

void Register(MixerRegistry& registry);

namespace {

constexpr std::int64_t kModelDim = 16;

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  MixerRegistry registry("mixer");
  Register(registry);
  config["name"] = "delta_net";
  return CreateMixer(config, "/mixer", {.d_model = kModelDim, .registry = &registry},
                     ParameterScope(parameters));
}

// Values of a loop over tokens in Python, written from the equations of delta_net.md.
TEST_CASE("delta net: outputs and state are those of an independent loop") {
  const testing::MadeMixer made(Register, {{"conv_size", 2}}, {.d_model = 4});
  testing::FillParameters(made.parameters,
                          {"in_proj.weight", "conv.weight", "o_norm.weight", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *made.mixer, {testing::Sines({1, 3, 4}, 30)},
      {-0.06583043115077815, 0.023428181185997196, 0.021681319721418884, -0.06428542881939867,
       -0.1370383436889313, 0.0544679103486401, 0.034396579728878954, -0.11928636207492055,
       0.0835849241275317, -0.0798135027516979, 0.06681920663180654, -0.04610359579678916},
      {0.013884971218880545, -0.014966242110851829, 0.054754200916147966, 0.007526867179989323,
       0.011818820370932966, -0.0001814645963429267, 0.041032192706614616, -0.025612453267552272});
}

TEST_CASE("delta net: the write strength is in (0,1), and in (0,2) with negative eigenvalues") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = testing::RandomNormal({4, 20, kModelDim}, 1) * 5;
  at::Tensor narrow;
  for (const bool allow_neg_eigval : {false, true}) {
    ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
    const auto mixer = Make({{"allow_neg_eigval", allow_neg_eigval}}, parameters);
    TapRecorder recorder;
    Forward(*mixer, {x}, {.taps = TapScope(recorder)});
    const at::Tensor& beta = recorder.records.at("write_gate");
    CHECK(beta.sizes() == at::IntArrayRef({4, 20, 2}));
    CHECK(beta.min().item<double>() > 0);
    CHECK(beta.max().item<double>() < (allow_neg_eigval ? 2 : 1));
    if (!allow_neg_eigval) narrow = beta;
    if (allow_neg_eigval) CHECK(beta.equal(narrow * 2));
  }
}

TEST_CASE("delta net: overriding the write gate acts from the masked position on") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kMasked = 5;
  const at::Tensor x = testing::RandomNormal({2, 9, kModelDim}, 1);
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({}, parameters);
  const at::Tensor plain = Forward(*mixer, {x}).y;
  TapRecorder recorder;
  const MixerOptions options{.taps = TapScope(recorder)};
  recorder.override_write_gate = at::zeros({2, 9}, at::TensorOptions(at::kBool));
  recorder.override_write_gate->select(1, kMasked).fill_(true);
  const at::Tensor changed = Forward(*mixer, {x}, options).y;
  constexpr double kSameMaths = 1e-12;
  CHECK(testing::RelativeError(changed.narrow(1, 0, kMasked), plain.narrow(1, 0, kMasked)) <
        kSameMaths);
  CHECK(testing::RelativeError(changed.select(1, kMasked), plain.select(1, kMasked)) > 1e-4);

  recorder.override_write_gate = at::ones({2, 9}, at::TensorOptions(at::kBool));
  Forward(*mixer, {x}, options);
  const at::Tensor& gate = recorder.records.at("write_gate");
  CHECK(gate.equal(gate.narrow(1, 0, 1).expand_as(gate)));
}

// From the state that a call of the tokens before leaves, and keys by hand.
TEST_CASE("delta net: what is erased is what a key recalls of the state before its write") {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kHeads = 2, kSeqLen = 7;
  const at::Tensor x = testing::RandomNormal({2, kSeqLen, kModelDim}, 1);
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"conv_size", 0}}, parameters);
  at::Tensor weight;  // rows q, k, v, beta
  for (const Parameter& parameter : parameters.parameters()) {
    if (parameter.name == "in_proj.weight") weight = parameter.tensor;
  }
  const at::Tensor z = at::silu(x.matmul(weight.narrow(0, kModelDim, kModelDim).t()))
                           .unflatten(-1, {kHeads, kModelDim / kHeads});
  const at::Tensor k = z / (z.square().sum(-1, /*keepdim=*/true) + 1e-6).sqrt();
  at::Tensor expected = at::zeros({2, kSeqLen, kHeads}, at::kDouble);
  for (std::int64_t t = 1; t < kSeqLen; ++t) {
    const State before =
        Forward(*mixer, {x.narrow(1, 0, t)}, {.want_final_state = true}).final_state;
    const at::Tensor recalled = k.select(1, t).unsqueeze(-2).matmul(Find(&before, "state"));
    expected.select(1, t).copy_(recalled.squeeze(-2).norm(2, -1));
  }
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    TapRecorder whole, rest;
    Forward(*mixer, {x}, {.path = path, .taps = TapScope(whole)});
    CHECK(testing::RelativeError(whole.records.at("erase"), expected) < 1e-6);
    const State begun =
        Forward(*mixer, {x.narrow(1, 0, 3)}, {.want_final_state = true}).final_state;
    Forward(*mixer, {x.narrow(1, 3, kSeqLen - 3)},
            {.path = path, .initial_state = &begun, .taps = TapScope(rest)});
    CHECK(testing::RelativeError(rest.records.at("erase"), expected.narrow(1, 3, kSeqLen - 3)) <
          1e-6);
  }
}

TEST_CASE("delta net: each option changes the output") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = testing::RandomNormal({2, 9, kModelDim}, 1);
  const auto run = [&](Object config) {
    ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
    return Forward(*Make(std::move(config), parameters), {x}).y;
  };
  const at::Tensor plain = run({});
  for (const auto& [option, value] : Object{{"conv_size", 0},
                                            {"qk_activation", "elu1"},
                                            {"qk_norm", "sum"},
                                            {"allow_neg_eigval", true},
                                            {"use_output_gate", true},
                                            {"norm_eps", 1}}) {
    CAPTURE(option);
    CHECK(testing::RelativeError(run({{option, value}}), plain) > 1e-3);
  }
}

TEST_CASE("delta net: impossible sizes are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"num_heads", 3}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/expand_k: "));
  CHECK_THROWS_WITH(Make({{"conv_size", -1}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/conv_size: "));
}

}  // namespace
}  // namespace mixerbench::models::delta_net
