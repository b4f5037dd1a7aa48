// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/linear_attention/linear_attention.h"

#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "models/mixer.h"
#include "tests/support/compare.h"

#include "tests/support/catch2.h"

namespace mixerbench::models::linear_attention {

void Register(MixerRegistry& registry);

namespace {

std::unique_ptr<Mixer> Make(Object config, std::int64_t d_model, ParameterSet& parameters) {
  MixerRegistry registry("mixer");
  Register(registry);
  config["name"] = "linear_attention";
  return CreateMixer(config, "/mixer", {.d_model = d_model, .registry = &registry},
                     ParameterScope(parameters));
}

TEST_CASE("linear attention: Based reproduces the golden vector of Taylor attention") {
  // q_t = (cos t, sin t), k_t = (cos(t+1), sin(t+1)), v_t = 1, 2, 3, read off x = [q, k, v] by a
  // projection that selects.
  const at::NoGradGuard no_grad;
  constexpr std::int64_t d = 5;
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  const auto mixer = Make({{"num_heads", 1},
                           {"head_k_dim", 2},
                           {"expand_v", 0.2},
                           {"feature_map", "taylor"},
                           {"scale", 1},
                           {"use_normalizer", true},
                           {"normalizer_eps", 1e-12},
                           {"use_output_norm", false}},
                          d, parameters);
  parameters.parameters()[0].tensor.copy_(at::eye(d));
  at::Tensor last = at::zeros({d, 1});
  last[4][0] = 1;
  parameters.parameters()[1].tensor.copy_(last);
  at::Tensor x = at::zeros({1, 3, d}, at::TensorOptions(at::kDouble));
  for (std::int64_t t = 0; t < 3; ++t) {
    const auto angle = static_cast<double>(t);
    x[0][t].copy_(at::tensor(
        {std::cos(angle), std::sin(angle), std::cos(angle + 1), std::sin(angle + 1), angle + 1},
        x.options()));
  }
  const at::Tensor expected = at::tensor({1.0, 1.4264283216, 2.0}, x.options());
  constexpr double kPrintedDigits = 1e-10;
  for (const ExecutionPath path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    CHECK(testing::RelativeError(Forward(*mixer, {x}, {.path = path}).y[0].select(1, 4), expected) <
          kPrintedDigits);
  }
}

TEST_CASE("linear attention: impossible sizes are errors that name the option") {
  ParameterSet parameters(1, InitPolicy::kDefault, 1, at::kCPU, at::kDouble);
  CHECK_THROWS_WITH(Make({{"num_heads", 3}}, 16, parameters),
                    Catch::Matchers::StartsWith("/mixer/num_heads: 3 does not divide d_model 16"));
  CHECK_THROWS_WITH(Make({{"expand_v", 0.3}}, 16, parameters),
                    Catch::Matchers::StartsWith("/mixer/expand_v: "));
  CHECK_THROWS_WITH(Make({{"feature_map", "taylr"}}, 16, parameters),
                    Catch::Matchers::Contains("did you mean 'taylor'"));
}

}  // namespace
}  // namespace mixerbench::models::linear_attention
