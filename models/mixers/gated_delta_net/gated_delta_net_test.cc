// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gated_delta_net/gated_delta_net.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::gated_delta_net {

void Register(MixerRegistry& registry);

namespace {

constexpr std::int64_t kModelDim = 16;

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  MixerRegistry registry("mixer");
  Register(registry);
  config["name"] = "gated_delta_net";
  return CreateMixer(config, "/mixer", {.d_model = kModelDim, .registry = &registry},
                     ParameterScope(parameters));
}

TEST_CASE("gated delta net: gates are per value head and decays start between -1.7 and 0") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kZoology, 2, at::kCPU, at::kFloat);
  const auto mixer = Make({{"num_v_heads", 4}}, parameters);
  TapRecorder recorder;
  Forward(*mixer, {testing::RandomNormal({2, 9, kModelDim}, 1, at::kFloat)},
          {.taps = TapScope(recorder)});
  const at::Tensor& log_decay = recorder.records.at("log_decay");
  CHECK(log_decay.sizes() == at::IntArrayRef({2, 9, 4}));
  CHECK(recorder.records.at("write_gate").sizes() == at::IntArrayRef({2, 9, 4}));
  CHECK(recorder.records.at("state").sizes() == at::IntArrayRef({2, 4, 8, 16}));
  CHECK(log_decay.max().item<double>() < 0);
  CHECK(log_decay.min().item<double>() > -16 * 0.15);  // A < 16, dt < 0.1 and logits near 0
}

TEST_CASE("gated delta net: value heads come in multiples of key heads") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kFloat);
  CHECK_THROWS_WITH(Make({{"num_v_heads", 3}}, parameters),
                    "/mixer/num_v_heads: 3 is not a multiple of num_heads 2");
}

}  // namespace
}  // namespace mixerbench::models::gated_delta_net
