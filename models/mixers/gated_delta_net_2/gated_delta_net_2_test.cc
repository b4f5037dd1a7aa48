// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gated_delta_net_2/gated_delta_net_2.h"

#include <cstdint>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::gated_delta_net_2 {

void Register(MixerRegistry& registry);

namespace {

constexpr double kFloat64Tolerance = 1e-12;  // a few roundings at 1e-16

std::unique_ptr<Mixer> Make(Object config, std::int64_t d_model, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = d_model},
                            ParameterScope(parameters));
}

// Values of a loop over tokens in Python, written from the equations of gated_delta_net_2.md.
TEST_CASE("gated delta net 2: outputs and state are those of an independent loop") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"conv_size", 2}}, 4, parameters);
  testing::FillParameters(parameters,
                          {"in_proj.weight", "conv.weight", "decay_proj.weight", "A_log", "dt_bias",
                           "o_norm.weight", "gate_proj.weight", "gate_proj.bias", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *mixer, {testing::Sines({1, 3, 4}, 30)},
      {-0.026131176168594783, 0.056177146148551495, -0.079731548103752561, 0.094072545610354719,
       0.19352635486243625, -0.16139637730738782, 0.11061618994158104, -0.047053713497823814,
       -0.11742118999569709, 0.10135054462958216, -0.073568304782159366, 0.037284856032160391},
      {-0.0075082486398811155, -0.0091446905736205491, 0.045219395591971953, 0.0079203554012688866,
       0.0085709945494782148, -0.0017095643042825078, 0.042269731298898015, -0.019314038200163069});
}

TEST_CASE("gated delta net 2: decays are per channel, gates per head, what is erased is tapped") {
  ParameterSet parameters(1, InitPolicy::kZoology, 2, at::kCPU, at::kFloat);
  testing::CheckChannelDeltaTaps(*Make({{"num_v_heads", 4}}, 16, parameters));
}

TEST_CASE("gated delta net 2: bounded decays stay above their bound") {
  ParameterSet parameters = testing::NewParameters();
  testing::CheckBoundedDecays(*Make({{"min_log_decay", -5}}, 16, parameters));
}

TEST_CASE("gated delta net 2: impossible sizes are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  testing::CheckVectorDeltaErrors([&](Object config) { Make(std::move(config), 16, parameters); });
}

TEST_CASE("gated delta net 2: parameters and state are as many as the page says") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  const auto mixer = Make({}, 128, parameters);
  const std::int64_t d = 128, heads = 2, v = 64;
  const std::int64_t small = 3 * 4 * d + heads + d + v + d;  // conv, A_log, dt_bias, norm, bias
  CHECK(parameters.num_elements() == 6 * d * d + 4 * d * v + small);
  const StateSize size = SizeOf(mixer->InitialState(1));
  CHECK(size.recurrent == heads * v * v);
  CHECK(size.conv == 4 * 3 * d);
}

TEST_CASE("gated delta net 2: an override of the write gate scales all its channels") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({}, 16, parameters);
  const at::Tensor x = testing::RandomNormal({2, 9, 16}, 1);
  TapRecorder recorder;
  const at::Tensor y = Forward(*mixer, {x}, {.taps = TapScope(recorder)}).y;
  TapRecorder overriding;
  overriding.override_write_gate = at::zeros({2, 9}, at::kBool);
  overriding.override_write_gate->select(1, 5).fill_(true);
  const at::Tensor changed = Forward(*mixer, {x}, {.taps = TapScope(overriding)}).y;
  const at::Tensor gate = recorder.records.at("write_gate");
  CHECK(overriding.records.at("write_gate").select(1, 5).allclose(gate.mean(1)));
  CHECK(testing::RelativeError(changed.narrow(1, 0, 5), y.narrow(1, 0, 5)) < kFloat64Tolerance);
  CHECK(testing::RelativeError(changed.narrow(1, 5, 4), y.narrow(1, 5, 4)) > 1e-4);
}

}  // namespace
}  // namespace mixerbench::models::gated_delta_net_2
