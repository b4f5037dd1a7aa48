// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mixer_checks.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_real.h>

#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::testing {

void CheckSelectiveStart(const MadeMixer& made) {
  const at::Tensor steps = at::softplus(made["dt_proj.bias"]);
  CHECK(steps.min().item<double>() > 0.99e-3);
  CHECK(steps.max().item<double>() < 0.101);
  CHECK(std::abs(steps.log().mean().item<double>() - std::log(1e-2)) < 0.5);
  const at::Tensor A = made["A_log"].exp();
  for (std::int64_t n = 0; n < A.size(1); ++n) {
    CHECK((A.select(1, n) - static_cast<double>(n + 1)).abs().max().item<double>() < 1e-5);
  }
  CHECK((made["D"] == 1).all().item<bool>());
}

void CheckOutputsAndState(const models::Mixer& mixer, const models::MixerInputs& inputs,
                          const std::vector<double>& y,
                          const std::map<std::string, std::vector<double>>& states) {
  constexpr double kTolerance = 1e-12;  // a few roundings at 1e-16
  const at::NoGradGuard no_grad;
  for (const auto path : {models::ExecutionPath::kReference, models::ExecutionPath::kFast}) {
    CAPTURE(path == models::ExecutionPath::kFast);
    const auto result = Forward(mixer, inputs, {.path = path, .want_final_state = true});
    CHECK(RelativeError(result.y.flatten(), at::tensor(y, at::kDouble)) < kTolerance);
    for (const auto& [name, values] : states) {
      CAPTURE(name);
      const at::Tensor state = Find(&result.final_state, name);
      const at::Tensor numbers = state.is_complex() ? at::view_as_real(state) : state;
      CHECK(RelativeError(numbers.flatten(), at::tensor(values, at::kDouble)) < kTolerance);
    }
  }
}

void CheckOutputsAndState(const models::Mixer& mixer, const models::MixerInputs& inputs,
                          const std::vector<double>& y, const std::vector<double>& state) {
  CheckOutputsAndState(mixer, inputs, y,
                       std::map<std::string, std::vector<double>>{{"state", state}});
}

void CheckOnlyConvolutionGoes(const RegisterMixers& registration) {
  constexpr double kTolerance = 1e-12;  // a few roundings at 1e-16
  const at::NoGradGuard no_grad;
  const MadeMixer with(registration, {{"conv_size", 4}}, {.d_model = 16});
  const MadeMixer without(registration, {{"conv_size", 0}}, {.d_model = 16});
  for (const auto& parameter : without.parameters.parameters()) {
    with[parameter.name].copy_(without[parameter.name]);
  }
  with["conv.weight"].zero_().select(1, 3).fill_(1);
  const at::Tensor x = RandomNormal({2, 9, 16}, 1) * 50;  // logits of size 1 and more
  CHECK(RelativeError(Forward(*without.mixer, {x}).y, Forward(*with.mixer, {x}).y) < kTolerance);
}

void CheckVectorDeltaErrors(const std::function<void(Object config)>& make) {
  CHECK_THROWS_WITH(make({{"num_v_heads", 3}}),
                    "/mixer/num_v_heads: 3 is not a multiple of num_heads 2");
  CHECK_THROWS_WITH(make({{"min_log_decay", 1}}),
                    Catch::Matchers::StartsWith("/mixer/min_log_decay: "));
  CHECK_THROWS_WITH(make({{"gate_low_rank_dim", -1}}),
                    Catch::Matchers::StartsWith("/mixer/gate_low_rank_dim: "));
}

void CheckChannelDeltaTaps(const models::Mixer& mixer) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = RandomNormal({2, 9, 16}, 1, at::kFloat);
  models::TapRecorder recorder;
  Forward(mixer, {x}, {.want_final_state = true, .taps = models::TapScope(recorder)});
  const auto& records = recorder.records;
  CHECK(records.at("log_decay").sizes() == at::IntArrayRef({2, 9, 4, 8}));
  CHECK(records.at("log_decay").max().item<double>() < 0);
  CHECK(records.at("log_decay").min().item<double>() > -16 * 0.15);  // A < 16, dt < 0.1
  CHECK(records.at("write_gate").sizes() == at::IntArrayRef({2, 9, 4}));
  CHECK(records.at("state").sizes() == at::IntArrayRef({2, 4, 8, 8}));
  const at::Tensor erase = records.at("erase");
  CHECK(erase.sizes() == at::IntArrayRef({2, 9, 4}));
  CHECK(erase.select(1, 0).count_nonzero().item<std::int64_t>() == 0);
  CHECK(erase.select(1, 1).min().item<double>() > 0);

  const models::MixerResult first = Forward(mixer, {x.narrow(1, 0, 4)}, {.want_final_state = true});
  models::TapRecorder second;
  Forward(mixer, {x.narrow(1, 4, 5)},
          {.initial_state = &first.final_state, .taps = models::TapScope(second)});
  CHECK(RelativeError(second.records.at("erase"), erase.narrow(1, 4, 5)) < 1e-5);
}

void CheckBoundedDecays(const models::Mixer& mixer) {
  const at::NoGradGuard no_grad;
  models::TapRecorder recorder;
  Forward(mixer, {RandomNormal({2, 9, 16}, 1) * 100}, {.taps = models::TapScope(recorder)});
  const at::Tensor& log_decay = recorder.records.at("log_decay");
  CHECK(log_decay.min().item<double>() >= -5);
  CHECK(log_decay.min().item<double>() < -4);
}

}  // namespace mixerbench::testing
