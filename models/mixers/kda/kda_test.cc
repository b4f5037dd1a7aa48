// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/kda/kda.h"

#include <cstdint>
#include <utility>

#include "models/mixer.h"
#include "tests/support/mixer.h"
#include "tests/support/mixer_checks.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::kda {

void Register(MixerRegistry& registry);

namespace {

std::unique_ptr<Mixer> Make(Object config, std::int64_t d_model, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = d_model},
                            ParameterScope(parameters));
}

// Values of a loop over tokens in Python, written from the equations of kda.md.
TEST_CASE("kda: outputs and state are those of an independent loop") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"conv_size", 2}}, 4, parameters);
  testing::FillParameters(parameters,
                          {"in_proj.weight", "conv.weight", "decay_proj.weight", "A_log", "dt_bias",
                           "o_norm.weight", "gate_proj.weight", "gate_proj.bias", "o_proj.weight"});
  testing::CheckOutputsAndState(
      *mixer, {testing::Sines({1, 3, 4}, 30)},
      {-0.055002444740997955, 0.073458620172945757, -0.083426261342288033, 0.08375355429738543,
       0.18413560507098886, -0.15242055757632322, 0.10309250398018123, -0.041851563234876363,
       -0.12661874276741111, 0.12287566174801373, -0.10493364447943657, 0.074865986484600966},
      {-0.003060026756412107, -0.01221102283955653, 0.041784508896073366, 0.010989035596199702,
       0.0079490292527265582, -0.003564330242120814, 0.033153694119282755, -0.018754348581306802});
}

TEST_CASE("kda: decays are per channel, gates per head, what is erased is tapped") {
  ParameterSet parameters(1, InitPolicy::kZoology, 2, at::kCPU, at::kFloat);
  testing::CheckChannelDeltaTaps(*Make({{"num_v_heads", 4}}, 16, parameters));
}

TEST_CASE("kda: bounded decays stay above their bound") {
  ParameterSet parameters = testing::NewParameters();
  testing::CheckBoundedDecays(*Make({{"min_log_decay", -5}}, 16, parameters));
}

TEST_CASE("kda: impossible sizes are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  testing::CheckVectorDeltaErrors([&](Object config) { Make(std::move(config), 16, parameters); });
}

TEST_CASE("kda: parameters and state are as many as the page says") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  const auto mixer = Make({}, 128, parameters);
  const std::int64_t d = 128, heads = 2, v = 64;
  const std::int64_t small = 3 * 4 * d + heads + d + v + d;  // conv, A_log, dt_bias, norm, bias
  CHECK(parameters.num_elements() == 4 * d * d + 4 * d * v + d * heads + small);
  const StateSize size = SizeOf(mixer->InitialState(1));
  CHECK(size.recurrent == heads * v * v);
  CHECK(size.conv == 4 * 3 * d);
}

}  // namespace
}  // namespace mixerbench::models::kda
