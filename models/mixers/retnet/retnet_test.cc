// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/retnet/retnet.h"

#include <cmath>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"
#include "tests/support/mixer.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::retnet {

void Register(MixerRegistry& registry);

namespace {

using testing::RelativeError;

constexpr std::int64_t kModelDim = 16;
constexpr double kTolerance = 1e-12;      // float64
constexpr double kFloatTolerance = 1e-6;  // taps are float32

std::unique_ptr<Mixer> Make(Object config, ParameterSet& parameters) {
  return testing::MakeMixer(Register, std::move(config), {.d_model = kModelDim},
                            ParameterScope(parameters));
}

std::vector<double> Decays(Object config) {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make(std::move(config), parameters);
  TapRecorder recorder;
  Forward(*mixer, {testing::RandomNormal({1, 1, kModelDim}, 1)}, {.taps = TapScope(recorder)});
  const at::Tensor decay = recorder.records.at("log_decay").to(at::kDouble).exp().flatten();
  return {decay.const_data_ptr<double>(), decay.const_data_ptr<double>() + decay.numel()};
}

TEST_CASE("retnet: heads keep one minus a power of two of their state") {
  CHECK_THAT(Decays({{"num_heads", 2}}),
             Catch::Matchers::Approx(std::vector<double>{1 - 1.0 / 32, 1 - 1.0 / 64})
                 .epsilon(kFloatTolerance));
  CHECK_THAT(Decays({{"num_heads", 4}, {"first_decay_exponent", 3}, {"last_decay_exponent", 9}}),
             Catch::Matchers::Approx(
                 std::vector<double>{1 - 1.0 / 8, 1 - 1.0 / 32, 1 - 1.0 / 128, 1 - 1.0 / 512})
                 .epsilon(kFloatTolerance));
}

// By the definition over pairs of tokens, apart from everything the mixer calls.
TEST_CASE("retnet: an output is a decayed sum over pairs turned by their distance") {
  const at::NoGradGuard no_grad;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"num_heads", 1}, {"expand_v", 1}, {"output_gate", "none"}}, parameters);
  const std::int64_t seq_len = 7;
  const at::Tensor x = testing::RandomNormal({1, seq_len, kModelDim}, 1);
  const auto& list = parameters.parameters();
  const at::Tensor projected = x[0].matmul(list.at(0).tensor.t());
  REQUIRE(list.at(0).name == "in_proj.weight");
  REQUIRE(list.at(2).name == "o_proj.weight");
  const at::Tensor q = projected.narrow(1, 0, kModelDim);
  const at::Tensor k = projected.narrow(1, kModelDim, kModelDim);
  const at::Tensor v = projected.narrow(1, 2 * kModelDim, kModelDim);
  at::Tensor o = v * 0;
  for (std::int64_t t = 0; t < seq_len; ++t) {
    for (std::int64_t j = 0; j <= t; ++j) {
      double product = 0;
      for (std::int64_t i = 0; i < kModelDim / 2; ++i) {
        const double angle =
            static_cast<double>(t - j) * std::pow(1e4, -2.0 * static_cast<double>(i) / kModelDim);
        const auto at = [&](const at::Tensor& row, std::int64_t token, std::int64_t channel) {
          return row[token][channel].item<double>();
        };
        const double q_1 = at(q, t, i), q_2 = at(q, t, i + kModelDim / 2);
        const double k_1 = at(k, j, i), k_2 = at(k, j, i + kModelDim / 2);
        product +=
            std::cos(angle) * (q_1 * k_1 + q_2 * k_2) + std::sin(angle) * (q_1 * k_2 - q_2 * k_1);
      }
      const double decay = std::pow(1 - 1.0 / 32, static_cast<double>(t - j));
      o[t] += v[j] * (product * decay / std::sqrt(static_cast<double>(kModelDim)));
    }
  }
  const at::Tensor normed = o * (o * o).mean(-1, /*keepdim=*/true).add(1e-5).rsqrt();
  const at::Tensor expected = normed.matmul(list.at(2).tensor.t());
  CHECK(RelativeError(Forward(*mixer, {x}).y[0], expected) < kTolerance);
}

TEST_CASE("retnet: impossible decays are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"first_decay_exponent", 0}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/first_decay_exponent: "));
  CHECK_THROWS_WITH(Make({{"last_decay_exponent", -1}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/last_decay_exponent: "));
  CHECK_THROWS_WITH(Make({{"num_heads", 16}, {"first_decay_exponent", 6}}, parameters),
                    Catch::Matchers::StartsWith("/mixer/num_heads: "));
}

}  // namespace
}  // namespace mixerbench::models::retnet
