// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/gla/gla.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::gla {

void Register(MixerRegistry& registry);

namespace {

constexpr std::int64_t kModelDim = 16;

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = kModelDim},
                            ParameterScope(parameters));
}

at::Tensor LogDecay(Object config, const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make(std::move(config), parameters);
  TapRecorder recorder;
  Forward(*mixer, {x}, {.taps = TapScope(recorder)});
  return recorder.records.at("log_decay");
}

TEST_CASE("gla: the normaliser slows the decay and the bound limits it") {
  const at::Tensor x = testing::RandomNormal({2, 9, kModelDim}, 1) * 100;
  const at::Tensor plain = LogDecay({{"gate_logit_normalizer", 1}}, x);
  CHECK(plain.sizes() == at::IntArrayRef({2, 9, 2, 4}));
  CHECK(plain.min().item<double>() < -5);
  CHECK(LogDecay({{"gate_logit_normalizer", 16}}, x).allclose(plain / 16));
  CHECK(LogDecay({{"gate_logit_normalizer", 1}, {"min_log_decay", -5}}, x)
            .equal(plain.clamp_min(-5)));
}

TEST_CASE("gla: impossible gates are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"min_log_decay", 1}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/min_log_decay: "));
  CHECK_THROWS_WITH(Make({{"gate_logit_normalizer", 0}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/gate_logit_normalizer: "));
  CHECK_THROWS_WITH(Make({{"output_gate", "swish"}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/output_gate: "));
}

}  // namespace
}  // namespace mixerbench::models::gla
